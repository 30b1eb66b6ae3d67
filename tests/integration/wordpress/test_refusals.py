"""Refusals by the CRD's validation, with messages that do not contain a password."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.wordpresses import PASSWORD, wordpress, wordpress_path

pytestmark = pytest.mark.contract

REFERENCE = {"name": "given", "key": "root"}


def without_password(body: dict[str, Any]) -> dict[str, Any]:
    del body["spec"]["sqlrootpassword"]
    return body


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (without_password(wordpress("x")), "exactly one of sqlrootpassword and sqlRootPasswordSecretRef"),
        (wordpress("x", sqlrootpassword=""), "exactly one of"),
        (wordpress("x", sqlRootPasswordSecretRef=REFERENCE, sqlrootpassword=PASSWORD), "exactly one of"),
        (wordpress("x", sqlRootPasswordSecretRef={"name": "given"}), "spec.sqlRootPasswordSecretRef.key"),
        (wordpress("x", sqlRootPasswordSecretRef={**REFERENCE, "name": ""}), "sqlRootPasswordSecretRef.name"),
        (wordpress("x", sqlrootpassword=f"{PASSWORD}'; DROP"), "other than quotes and backslashes"),
        (wordpress("x", sqlrootpassword=f"{PASSWORD}\\"), "other than quotes and backslashes"),
        (wordpress("x", sqlrootpassword=f"{PASSWORD}\x00"), "other than quotes and backslashes"),
        (wordpress("x", sqlrootpassword=f"{PASSWORD}ü"), "other than quotes and backslashes"),
        (wordpress("x", sqlrootpassword=PASSWORD * 10), "spec.sqlrootpassword"),
        (wordpress("x", sqlrootpassword=[PASSWORD]), "spec.sqlrootpassword"),
        (wordpress("n" * 51), "at most 50 characters"),
        (wordpress("9lives"), "must be made of lower case letters"),
        (wordpress("with.dots"), "metadata.name: Invalid value: "),
        (wordpress("x", storageSize="plenty"), "must be a quantity, such as 10Gi"),
        (wordpress("x", storageSize="0"), "from 1Mi to 1Ei"),
        (wordpress("x", storageSize="1e30"), "from 1Mi to 1Ei"),
        (wordpress("x", storageSize="1" * 33), "spec.storageSize"),
        (wordpress("x", storageClassName="No Such"), "spec.storageClassName"),
        (wordpress("x", serviceType="ExternalName"), "spec.serviceType"),
        (wordpress("x", reclaimPolicy="Recycle"), "spec.reclaimPolicy"),
        (wordpress("x", image="i" * 1025), "spec.image"),
        (wordpress("x", image="two words"), "spec.image"),
        (wordpress("x", mysqlImage=" mysql"), "spec.mysqlImage"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:40],
)
def test_schema_refuses_invalid_wordpress_without_showing_its_password(
    crds: ControlPlane, body: dict[str, Any], said: str
):
    error = crds.api.refusal(wordpress_path("default"), body)
    assert said in error
    assert PASSWORD not in error


def test_schema_refuses_changes_of_wordpress_passwords_and_storage_class(crds: ControlPlane, namespace: str):
    sites = {
        "inline": wordpress("inline", storageClassName="standard"),
        "named": wordpress("named", sqlRootPasswordSecretRef=REFERENCE),
    }
    for body in sites.values():
        crds.api.create(wordpress_path(namespace), body)

    def changed(name: str, **spec: Any) -> str:
        body, path = copy.deepcopy(sites[name]), wordpress_path(namespace, name)
        body["metadata"]["resourceVersion"] = crds.api.get(path)["metadata"]["resourceVersion"]
        body["spec"].update(spec)
        body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
        error = crds.api.refusal(path, body, method="PUT")
        assert PASSWORD not in error
        return error

    stays = "the root password cannot be changed"
    assert stays in changed("inline", sqlrootpassword=f"{PASSWORD}2")
    assert stays in changed("inline", sqlrootpassword=None, sqlRootPasswordSecretRef=REFERENCE)
    assert stays in changed("named", sqlrootpassword=PASSWORD, sqlRootPasswordSecretRef=None)
    assert stays in changed("named", sqlRootPasswordSecretRef={**REFERENCE, "name": "other"})
    assert stays in changed("named", sqlRootPasswordSecretRef={**REFERENCE, "key": "other"})
    assert "exactly one of" in changed("inline", sqlRootPasswordSecretRef=REFERENCE)
    assert "exactly one of" in changed("inline", sqlrootpassword=None)
    assert "storageClassName cannot be changed" in changed("inline", storageClassName="other")
    assert "storageClassName cannot be changed" in changed("inline", storageClassName=None)
    assert "storageClassName cannot be changed" in changed("named", storageClassName="other")
    assert "can grow, but not shrink" in changed("inline", storageSize="9Gi")
    assert changed("inline", storageSize="10240Mi") == ""
    assert changed("named", sqlrootpassword="", serviceType="ClusterIP", reclaimPolicy="Delete") == ""
