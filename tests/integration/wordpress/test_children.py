"""What others do to a site's children is put back, and what others own is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api_objects import object_path
from tests.support.control_plane import Feature
from tests.support.eventually import consistently, eventually
from tests.support.wordpresses import CHILDREN, WordpressWalk, owners, secret, wordpress, wordpress_path

if TYPE_CHECKING:
    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane

MANAGED_BY, INSTANCE = "app.kubernetes.io/managed-by", "app.kubernetes.io/instance"


def container_of(deployment: dict[str, Any]) -> dict[str, Any]:
    return dict(deployment["spec"]["template"]["spec"]["containers"][0])


def environment_of(deployment: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container_of(deployment)["env"]}


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_drift_is_put_back(walk: WordpressWalk, policy: str) -> None:
    walk.plane.require(Feature.READY_PODS)
    walk.create("site", reclaimPolicy=policy)
    eventually(lambda: walk.is_available("site"))
    before = list(walk.children("site"))
    passwords = walk.passwords("site")

    for api, plural, pattern in CHILDREN:
        path = object_path(api, walk.namespace, plural, pattern.format("site"))
        labels = {"tier": "wrong", "app": None, "mine": "kept"}
        walk.plane.api.patch(path, {"metadata": {"labels": labels, "ownerReferences": None}})
    walk.kubectl("set", "image", "deployment/site-mysql", "mysql=mysql:5.5")
    walk.kubectl("scale", "deployment/site", "--replicas=3")
    walk.kubectl("set", "env", "deployment/site", "WORDPRESS_DB_HOST=elsewhere")
    wrong_port = [{"op": "replace", "path": "/spec/ports/0/port", "value": 8080}]
    for name in ("site", "site-mysql"):
        walk.plane.api.patch(
            object_path("v1", walk.namespace, "services", name),
            wrong_port,  # type: ignore[arg-type] # a JSON patch
            content_type="application/json-patch+json",
        )

    def is_put_back() -> None:
        for old, new in zip(before, walk.children("site"), strict=True):
            assert new["metadata"]["labels"] == {**old["metadata"]["labels"], "mine": "kept"}
            assert owners(new) == owners(old)
            assert new["metadata"]["uid"] == old["metadata"]["uid"]
        database, frontend = walk.deployment("site-mysql"), walk.deployment("site")
        assert container_of(database)["image"] == container_of(before[3])["image"]
        assert frontend["spec"]["replicas"] == 1
        assert environment_of(frontend)["WORDPRESS_DB_HOST"] == "site-mysql"
        assert walk.service("site")["spec"]["ports"][0]["port"] == 80
        assert walk.service("site-mysql")["spec"]["ports"][0]["port"] == 3306

    eventually(is_put_back)
    eventually(lambda: walk.is_available("site"))
    assert walk.passwords("site") == passwords
    eventually(lambda: walk.events("site")["Restored"] >= len(CHILDREN))

    # Nobody can change the only place where the passwords are.
    refused = walk.plane.kubectl(
        f"--namespace={walk.namespace}",
        *("patch", "secret", "site-mysql", "--type=merge", "-p", '{"stringData":{"password":"mine"}}'),
        check=False,
    )
    assert "immutable" in refused.stderr

    for api, plural, pattern in CHILDREN[4:]:
        walk.plane.api.delete(object_path(api, walk.namespace, plural, pattern.format("site")))
    eventually(lambda: walk.missing("site") == [])
    eventually(lambda: walk.is_available("site"))


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


def test_images_and_proxies_are_the_managers_unless_the_site_says_otherwise(
    crds: ControlPlane, storage: None, namespace: str, run_manager: RunManager
) -> None:
    crds.require(Feature.READY_PODS)
    proxy = {"HTTPS_PROXY": "http://proxy.local:3128", "NO_PROXY": "127.0.0.1,localhost"}
    images = {"MYSQL_IMAGE": "registry.local/mysql:d", "WORDPRESS_IMAGE": "registry.local/wordpress:d"}
    flags = (f"--namespaces={namespace}", "--controllers=wordpress")
    first = run_manager(crds.kubeconfig, *flags, environ={**proxy, **images}).wait_ready()
    walk = WordpressWalk(crds, namespace, first)
    crds.api.create(wordpress_path(namespace), wordpress("plain"))
    own = wordpress("own", mysqlImage="registry.local/mysql:o", image="registry.local/wordpress:o")
    crds.api.create(wordpress_path(namespace), own)
    for name, tag in (("plain", "d"), ("own", "o")):
        eventually(lambda name=name: walk.is_available(name))
        assert container_of(walk.deployment(f"{name}-mysql"))["image"] == f"registry.local/mysql:{tag}"
        assert container_of(walk.deployment(name))["image"] == f"registry.local/wordpress:{tag}"
    spelled = {**proxy, **{name.lower(): value for name, value in proxy.items()}}
    for name in ("plain", "plain-mysql"):
        assert spelled.items() <= environment_of(walk.deployment(name)).items()
    assert first.stop() == 0

    run_manager(crds.kubeconfig, *flags).wait_ready()
    for name in ("plain", "plain-mysql"):
        eventually(lambda name=name: not spelled.keys() & environment_of(walk.deployment(name)).keys())
    consistently(lambda: container_of(walk.deployment("own"))["image"].endswith(":o"), during=0.5)
