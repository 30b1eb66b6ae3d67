"""What others do to a site's children is put back, and what others own is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.api_objects import object_path
from tests.support.control_plane import Feature
from tests.support.eventually import eventually
from tests.support.wordpresses import CHILDREN, WordpressWalk, owners, secret

if TYPE_CHECKING:
    pass

MANAGED_BY, INSTANCE = "app.kubernetes.io/managed-by", "app.kubernetes.io/instance"


def test_children_of_somebody_else_are_left_alone(walk: WordpressWalk) -> None:
    labels = {"app": "foreign", MANAGED_BY: "Helm"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "y"}]}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    bodies: dict[str, dict[str, Any]] = {
        "persistentvolumeclaims": {"spec": claim},
        "secrets": {"stringData": {"root-password": "theirs", "password": "theirs"}},
        "deployments": {"spec": {"selector": {"matchLabels": labels}, "template": pod}},
        "services": {"spec": {"ports": [{"port": 9}]}},
    }
    taken: dict[str, tuple[str, dict[str, Any]]] = {}
    # All but the last two, which come once the database is ready.
    for number, (api, plural, pattern) in enumerate(CHILDREN[:5]):
        site = f"site-{number}"
        path = object_path(api, walk.namespace, plural)
        metadata = {"name": pattern.format(site), "labels": labels}
        created = walk.plane.api.create(path, {"metadata": metadata, **bodies[plural]})
        taken[site] = (f"{path}/{metadata['name']}", created)
        walk.create(site)

    for site, (path, created) in taken.items():
        eventually(lambda site=site: walk.is_degraded(site, "NameTaken"))
        message = walk.condition(site, "Degraded")["message"]
        assert created["metadata"]["name"] in message
        assert walk.condition(site, "Available")["status"] == "False"
        eventually(lambda site=site: walk.events(site)["NameTaken"] == 1)
        found = walk.plane.api.get(path)
        assert found["metadata"]["labels"] == labels
        assert owners(found) == []
        theirs = created.get("spec") or created["data"]
        assert theirs.items() <= (found.get("spec") or found["data"]).items()

    # A name that becomes free is used.
    for path, _ in taken.values():
        walk.plane.api.delete(path)
    for site in taken:
        eventually(lambda site=site: walk.missing(site, CHILDREN[:5]) == [])
        eventually(lambda site=site: walk.condition(site, "Degraded")["status"] == "False")


def test_the_frontends_names_are_respected_too(walk: WordpressWalk) -> None:
    walk.plane.require(Feature.READY_PODS)
    walk.kubectl("create", "deployment", "one", "--image=nginx")
    walk.kubectl("create", "service", "clusterip", "two", "--tcp=80")
    for name in ("one", "two"):
        walk.create(name)
    for name in ("one", "two"):
        eventually(lambda name=name: walk.is_degraded(name, "NameTaken"))
    # Whoever has the frontend's name does not stand in the way of the database.
    eventually(lambda: walk.condition("one", "DatabaseReady")["status"] == "True")
    assert "url" not in walk.site("two")["status"]
    walk.kubectl("delete", "deployment", "one")
    walk.kubectl("delete", "service", "two")
    for name in ("one", "two"):
        eventually(lambda name=name: walk.is_available(name))


def test_what_is_labelled_as_the_sites_is_handed_over_to_it(walk: WordpressWalk) -> None:
    walk.plane.require(Feature.READY_PODS)
    mine = {MANAGED_BY: "operator-manager", INSTANCE: "heir"}
    given = secret("heir-mysql", **{"root-password": "restored", "password": "from-backup"})
    given["metadata"]["labels"] = mine
    path = object_path("v1", walk.namespace, "secrets")
    walk.plane.api.create(path, given)
    walk.create("heir", sqlrootpassword="restored")
    eventually(lambda: walk.is_available("heir"))
    assert walk.passwords("heir") == {"root-password": "restored", "password": "from-backup"}
    assert walk.condition("heir", "Degraded")["status"] == "False"

    # One that lacks what the site needs is no use, and says so.
    poor = secret("poor-mysql", **{"root-password": "restored"})
    poor["metadata"]["labels"] = {**mine, INSTANCE: "poor"}
    walk.plane.api.create(path, poor)
    walk.create("poor", sqlrootpassword="restored")
    eventually(lambda: walk.is_degraded("poor", "SecretIncomplete"))
    walk.kubectl("patch", "secret", "poor-mysql", "--type=merge", "-p", '{"stringData":{"password":"late"}}')
    eventually(lambda: walk.is_available("poor"))
