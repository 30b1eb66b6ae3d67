"""Where the passwords go, and where they never do."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from tests.support.api_objects import object_path
from tests.support.control_plane import Feature
from tests.support.eventually import eventually
from tests.support.wordpresses import WordpressWalk, secret

if TYPE_CHECKING:
    pass

REFERENCE = {"name": "given", "key": "root"}


def test_two_things_that_are_wrong_at_once_are_both_told(walk: WordpressWalk) -> None:
    claims = object_path("v1", walk.namespace, "persistentvolumeclaims")
    for name in ("site-mysql-pv-claim", "site-wp-pv-claim"):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        walk.plane.api.create(claims, {"metadata": {"name": name}, "spec": spec})
    walk.create("site", sqlRootPasswordSecretRef=REFERENCE)

    def told() -> None:
        message = walk.condition("site", "Degraded")["message"]
        assert "site-mysql-pv-claim already exists" in message
        assert "site-wp-pv-claim already exists" in message
        assert "waiting for Secret given" in message

    eventually(told)
    eventually(lambda: walk.events("site")["NameTaken"] == 2)


def test_the_site_starts_by_itself_once_its_secret_is_right(walk: WordpressWalk) -> None:
    walk.plane.require(Feature.READY_PODS)
    walk.create("site", sqlRootPasswordSecretRef=REFERENCE)
    secrets = object_path("v1", walk.namespace, "secrets")

    def waits(reason: str) -> None:
        degraded, progressing = walk.condition("site", "Degraded"), walk.condition("site", "Progressing")
        assert (degraded["status"], degraded["reason"]) == ("True", reason)
        assert (progressing["status"], progressing["reason"]) == ("True", reason)
        assert "given" in degraded["message"]

    eventually(lambda: waits("SecretNotFound"))
    walk.plane.api.create(secrets, secret("given", other="x"))
    eventually(lambda: waits("SecretKeyNotFound"))
    walk.plane.api.patch(f"{secrets}/given", {"stringData": {"root": ""}})
    eventually(lambda: waits("SecretKeyEmpty"))
    # As `kubectl create secret --from-file` makes it of a file that ends in a line break.
    walk.plane.api.patch(f"{secrets}/given", {"stringData": {"root": "from-a-file\n"}})
    eventually(lambda: waits("SecretValueUnfit"))
    walk.plane.api.patch(f"{secrets}/given", {"data": {"root": "/////w=="}})
    assert walk.missing("site") != []
    walk.plane.api.patch(f"{secrets}/given", {"stringData": {"root": "from-a-file"}})
    eventually(lambda: walk.is_available("site"))
    assert walk.passwords("site")["root-password"] == "from-a-file"
    for reason in ("SecretNotFound", "SecretKeyNotFound", "SecretKeyEmpty", "SecretValueUnfit"):
        eventually(lambda reason=reason: walk.events("site")[reason] == 1)

    # The database has it now; what becomes of the Secret it came from is only worth telling.
    walk.plane.api.patch(f"{secrets}/given", {"stringData": {"root": "changed"}})
    eventually(lambda: walk.is_degraded("site", "RootPasswordDiffers"))
    assert walk.is_available("site")
    walk.plane.api.delete(f"{secrets}/given")
    eventually(lambda: walk.condition("site", "Degraded")["status"] == "False")
    assert walk.passwords("site")["root-password"] == "from-a-file"
    assert walk.is_available("site")


def test_no_password_is_seen_anywhere_but_in_secrets(walk: WordpressWalk) -> None:
    walk.plane.require(Feature.READY_PODS)
    inline, named = "inLine-Secret-0815", "by-Name-Secret-4711"
    walk.create("inline", sqlrootpassword=inline)
    walk.plane.api.create(object_path("v1", walk.namespace, "secrets"), secret("given", root=named))
    walk.create("named", sqlRootPasswordSecretRef=REFERENCE)
    for name in ("inline", "named"):
        eventually(lambda name=name: walk.is_available(name))
        eventually(lambda name=name: walk.events(name).get("Available") == 1)
    known = {inline, named, *(walk.passwords(name)["password"] for name in ("inline", "named"))}
    # Made again with other passwords: that these differ is told, and neither is.
    for name in ("inline", "named"):
        walk.delete(name)
    walk.create("inline", sqlrootpassword=inline[::-1])
    walk.plane.api.patch(
        object_path("v1", walk.namespace, "secrets", "given"), {"stringData": {"root": named[::-1]}}
    )
    walk.create("named", sqlRootPasswordSecretRef=REFERENCE)
    for name in ("inline", "named"):
        eventually(lambda name=name: walk.is_degraded(name, "RootPasswordDiffers"))
        eventually(lambda name=name: walk.is_available(name))
        eventually(lambda name=name: walk.events(name).get("RootPasswordDiffers") == 1)
    known |= {inline[::-1], named[::-1]}

    # The site given inline has it in its own spec, where the user put it.
    described = [
        walk.kubectl("get", "wordpress", "named", "--output=yaml"),
        json.dumps(walk.site("inline")["status"]),
        walk.kubectl("get", "events,deployments,replicasets,pods,services,pvc", "--output=yaml"),
        walk.kubectl("describe", "wordpress", "named"),
        walk.kubectl("describe", "secrets,deployments,pods"),
        walk.manager.process.output(),
        walk.manager.scrape(),
        walk.manager.probe("/readyz?verbose")[1],
    ]
    encoded = {base64.b64encode(value.encode()).decode() for value in known}
    for text in described:
        assert text
        assert not [value for value in known | encoded if value in text]
    # They reach the containers by reference.
    found = [
        (workload, each["name"], each["valueFrom"]["secretKeyRef"]["key"])
        for workload in ("inline", "inline-mysql")
        for each in walk.deployment(workload)["spec"]["template"]["spec"]["containers"][0]["env"]
        if "PASSWORD" in each["name"]
    ]
    assert found == [
        ("inline", "WORDPRESS_DB_PASSWORD", "password"),
        ("inline-mysql", "MYSQL_ROOT_PASSWORD", "root-password"),
        ("inline-mysql", "MYSQL_PASSWORD", "password"),
    ]
