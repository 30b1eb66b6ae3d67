from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from apis.example.v1.wordpress import Wordpress
from manager.api.core_v1 import Secret

OBJECT = {
    "apiVersion": "example.com/v1",
    "kind": "Wordpress",
    "metadata": {"name": "blog"},
    "spec": {"sqlrootpassword": "in-the-open", "storageSize": "1Gi"},
}


def test_a_site_has_the_defaults_of_the_definition():
    spec = Wordpress.decode(json.dumps(OBJECT).encode()).spec
    assert (spec.storage_size, spec.service_type, spec.reclaim_policy) == ("1Gi", "NodePort", "Retain")
    assert spec.mysql_image is spec.image is spec.storage_class_name is None


def test_what_is_printed_of_a_site_has_no_password():
    site = Wordpress.decode(json.dumps(OBJECT).encode())
    assert "in-the-open" not in f"{site!r} {site}"


def test_what_is_printed_of_a_secret_has_no_values():
    secret = Secret.decode(b'{"metadata": {"name": "s"}, "data": {"a": "c2VjcmV0"}}')
    assert secret.value("a") == b"secret"
    assert secret.value("b") is None
    assert "c2VjcmV0" not in f"{secret!r} {secret}"
    with pytest.raises(ValidationError) as error:
        Secret.decode(b'{"metadata": {"name": "s"}, "data": "c2VjcmV0"}')
    assert "c2VjcmV0" not in str(error.value)
