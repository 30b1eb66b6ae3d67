from __future__ import annotations

from typing import Any

import pytest

from apis.example.v1.wordpress import Wordpress
from controllers.example.wordpress import WordpressOperator
from manager_tools.testing import without_manager
from tests.support.admission import request

warn_of_what_is_open = without_manager(WordpressOperator).warn_of_what_is_open
PASSWORD = "correct-horse"


def site(**spec: Any) -> Wordpress:
    return Wordpress.model_validate(
        {"metadata": {"name": "blog"}, "spec": {"serviceType": "ClusterIP", **spec}}
    )


async def test_wordpress_webhook_warns_about_a_plain_text_password_without_quoting_it():
    (warning,) = await warn_of_what_is_open(site(sqlrootpassword=PASSWORD), request(Wordpress))
    assert warning.startswith("spec.sqlrootpassword: ")
    assert "spec.sqlRootPasswordSecretRef" in warning
    assert PASSWORD not in warning


@pytest.mark.parametrize("opened", ["NodePort", "LoadBalancer", None])
async def test_wordpress_webhook_warns_of_a_site_that_is_public_before_its_installation(opened: str | None):
    spec = {} if opened is None else {"serviceType": opened}
    given = Wordpress.model_validate({"metadata": {"name": "blog"}, "spec": spec})
    (warning,) = await warn_of_what_is_open(given, request(Wordpress))
    assert warning.startswith(f"spec.serviceType: {opened or 'NodePort'} lets whoever comes first")
    assert "kubectl port-forward" in warning
    assert len(warning) <= 256, "an API server may cut what is longer"
