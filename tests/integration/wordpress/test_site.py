"""The Wordpress operator, used through kubectl."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import RunManager
from tests.support.api_objects import object_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.eventually import eventually
from tests.support.walk import walking
from tests.support.wordpresses import CHILDREN, COLLECTED, WordpressWalk

SAMPLES = (
    "--filename=config/samples/example_v1_wordpress.yaml",
    "--filename=config/samples/example_v1_wordpress_secret.yaml",
)
INLINE, BY_REFERENCE = "wordpress-sample", "wordpress-blog"


@pytest.fixture
def walk(
    crds: ControlPlane, storage: None, namespace: str, run_manager: RunManager
) -> Iterator[WordpressWalk]:
    flags = (f"--namespaces={namespace}", "--controllers=wordpress", "--log-level=debug")
    with walking(WordpressWalk, crds, namespace, run_manager(crds.kubeconfig, *flags)) as walk:
        yield walk


@pytest.mark.oldest
@pytest.mark.smoke
def test_wordpress_operator_makes_its_samples_available_and_deletes_their_children(walk: WordpressWalk):
    walk.plane.require(Feature.WORKLOADS, Feature.READY_PODS)
    walk.kubectl("apply", *SAMPLES)
    for name in (INLINE, BY_REFERENCE):
        eventually(lambda name=name: walk.is_available(name))
        assert walk.missing(name) == []
        assert walk.condition(name, "DatabaseReady")["status"] == "True"
        assert walk.condition(name, "Degraded")["status"] == "False"
        assert walk.site(name)["status"]["url"] == f"http://{name}.{walk.namespace}.svc"
    assert walk.passwords(INLINE)["root-password"] == "plaintextpassword"
    assert walk.passwords(BY_REFERENCE)["root-password"] == "change-me-before-use"
    generated = {walk.passwords(name)["password"] for name in (INLINE, BY_REFERENCE)}
    assert len(generated) == 2
    assert min(map(len, generated)) >= 32

    # Each site has its own volumes, labels and Services.
    for name in (INLINE, BY_REFERENCE):
        for tier, workload, claim in (
            ("mysql", f"{name}-mysql", f"{name}-mysql-pv-claim"),
            ("frontend", name, f"{name}-wp-pv-claim"),
        ):
            selector = {"app": name, "tier": tier}
            deployment, service = walk.deployment(workload), walk.service(workload)
            pod = deployment["spec"]["template"]
            assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == selector
            assert selector.items() <= pod["metadata"]["labels"].items()
            assert deployment["spec"]["strategy"]["type"] == "Recreate"
            assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim
            assert deployment["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is True
        assert walk.service(f"{name}-mysql")["spec"]["clusterIP"] == "None"

    header, blog, sample = walk.kubectl("get", "wordpress").splitlines()
    assert header.split() == ["NAME", "READY", "URL", "AGE"]
    assert blog.split()[:3] == [BY_REFERENCE, "True", f"http://{BY_REFERENCE}.{walk.namespace}.svc"]
    assert sample.split()[:2] == [INLINE, "True"]
    port = walk.service(INLINE)["spec"]["ports"][0]["nodePort"]
    assert walk.site(INLINE)["status"]["nodePort"] == port
    assert str(port) in walk.kubectl("get", "wordpress", INLINE, "--output=wide")
    assert "nodePort" not in walk.site(BY_REFERENCE)["status"]
    eventually(lambda: walk.events(INLINE)["Available"] == walk.events(INLINE)["DatabaseReady"] == 1)
    assert walk.events(INLINE) == {"Created": len(CHILDREN), "DatabaseReady": 1, "Available": 1}
    assert "sqlrootpassword" in walk.kubectl("explain", "wordpress.spec")

    # The Service type may change at any time.
    walk.change(INLINE, serviceType="LoadBalancer")
    eventually(lambda: walk.service(INLINE)["spec"]["type"] == "LoadBalancer")
    eventually(lambda: "url" not in walk.site(INLINE)["status"])
    ingress = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}
    walk.plane.api.patch(object_path("v1", walk.namespace, "services", INLINE) + "/status", ingress)
    eventually(lambda: walk.site(INLINE)["status"]["url"] == "http://192.0.2.7")
    walk.change(INLINE, serviceType="ClusterIP")
    eventually(lambda: walk.service(INLINE)["spec"]["type"] == "ClusterIP")
    eventually(lambda: walk.site(INLINE)["status"]["url"] == f"http://{INLINE}.{walk.namespace}.svc")

    walk.kubectl("delete", "wordpress", INLINE, "--wait=true")
    eventually(lambda: walk.missing(INLINE) == walk.paths(INLINE, COLLECTED))
    assert walk.is_available(BY_REFERENCE)
