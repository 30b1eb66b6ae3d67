from __future__ import annotations

from typing import Any

from apis.example.v1.wordpress import Wordpress
from controllers.example.webhooks import WEBHOOKS, warn_of_a_password_in_the_open
from tests.support.admission import request

PASSWORD = "correct-horse"
REFERENCE = {"name": "given", "key": "root"}


def site(**spec: Any) -> Wordpress:
    return Wordpress.model_validate({"metadata": {"name": "blog"}, "spec": spec})


async def test_a_password_in_the_open_is_warned_about_without_showing_it():
    (warning,) = await warn_of_a_password_in_the_open(site(sqlrootpassword=PASSWORD), request(Wordpress))
    assert warning.startswith("spec.sqlrootpassword: ")
    assert "spec.sqlRootPasswordSecretRef" in warning
    assert PASSWORD not in warning


async def test_a_password_in_a_secret_passes_in_silence():
    for spec in ({}, {"sqlrootpassword": ""}):
        given = site(sqlRootPasswordSecretRef=REFERENCE, **spec)
        assert list(await warn_of_a_password_in_the_open(given, request(Wordpress))) == []


def test_only_creation_is_looked_at_because_a_password_never_changes():
    (admission,) = WEBHOOKS
    assert admission.mutating is None
    assert admission.validating is not None
    assert admission.validating.operations == ("CREATE",)
    assert admission.validating.failure_policy == "Ignore", "it only warns"
