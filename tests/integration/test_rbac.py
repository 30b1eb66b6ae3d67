"""Roles in config/rbac/: the manager needs each of its rights, and no other right."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controllers.petstore.pet import PetOperator
from tests.conftest import RunManager, StartControlPlane
from tests.support.api_access import ApiAccess, ApiFailure
from tests.support.api_objects import condition, deployment_path, object_path, pod_path, storage_classes
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import install_crds
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy, Match
from tests.support.kubeconfig import Credentials
from tests.support.manifests import MANAGER as MANAGER_NAME
from tests.support.manifests import SYSTEM as DEPLOYED
from tests.support.manifests import manifests
from tests.support.memcacheds import memcached, memcached_path
from tests.support.pets import pet, pet_path
from tests.support.petstore_process import PetStoreProcess
from tests.support.roles import LEADER_ELECTION, MANAGER, OWNER_REFERENCES, Roles, permission_for

pytestmark = pytest.mark.contract

ENFORCED = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
WATCHED = (
    *("/memcacheds", "/deployments", "/pods", "/foos", "/mysrvs", "/pets"),
    *("/wordpresses", "/services", "/persistentvolumeclaims", "/secrets"),
)
FINALIZERS = ("cache.example.com", "memcacheds/finalizers", "update")
# Permissions that requests need although their paths do not show them.
IMPLIED = {
    FINALIZERS,
    ("example.com", "wordpresses/finalizers", "update"),
    ("apps", "deployments", "delete"),
    *(("", plural, "delete") for plural in ("services", "persistentvolumeclaims", "secrets")),
}
# Rights of every operator that these operators do not use.
UNUSED = {
    ("cache.example.com", "memcacheds", "patch"),
    ("example.com", "wordpresses", "patch"),
    *(("tutorial.my.domain", "foos", verb) for verb in ("get", "patch")),
    *(("myapp.idcos.com", "mysrvs", verb) for verb in ("get", "patch")),
}
# Every user may send a SelfSubjectAccessReview.
EVERYBODYS = {("authorization.k8s.io", "selfsubjectaccessreviews", "create")}
NAMESPACE = "example"
# Short, because the account name must fit into a certificate.
SYSTEM = "om"
# The policy knows the manager's account by its name.
WORKER = f"system:serviceaccount:{SYSTEM}:{MANAGER_NAME}"
POLICIES = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

TOO_OLD_TO_STREAM = {"kind": "Status", "code": 422, "message": "sendInitialEvents is forbidden"}


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> Iterator[ControlPlane]:
    """Start a control plane that checks rights for owner references that block a deletion."""
    plane = module_control_plane(apiserver_flags=[ENFORCED]).require(Feature.SERVER_FLAGS)
    install_crds(plane)
    for namespace in (NAMESPACE, SYSTEM):
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    plane.api.apply(policies())
    with storage_classes(plane):
        yield plane


def policies() -> list[dict[str, Any]]:
    """Return the admission policies of the manager's account, adapted to this test's account."""
    wanted = json.dumps([each for each in manifests() if each["kind"] in POLICIES])
    found: list[dict[str, Any]] = json.loads(wanted.replace(f"'{DEPLOYED}'", f"'{SYSTEM}'"))
    return found


@pytest.fixture
def user(plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[[str], ApiAccess]]:
    """Yield a function that returns API access as a user."""
    with contextlib.ExitStack() as stack:

        def access(name: str) -> ApiAccess:
            credentials = Credentials.read(plane.user_kubeconfig(name))
            return stack.enter_context(contextlib.closing(ApiAccess(credentials, scratch=tmp_path / name)))

        yield access


@pytest.fixture
def pet_store(tmp_path: Path) -> Iterator[PetStoreProcess]:
    with PetStoreProcess(tmp_path, "--memory") as running:
        yield running


def may_own(access: ApiAccess, owner: dict[str, Any]) -> bool:
    """Return whether the user may create an object whose owner reference blocks the deletion of `owner`."""
    reference = {**owner, "controller": True, "blockOwnerDeletion": True}
    metadata = {"name": "owned", "ownerReferences": [reference]}
    labels = {"app": "memcached", "memcached_cr": "owned"}  # the policy admits no other objects
    pod = {"automountServiceAccountToken": False, "containers": [{"name": "owned", "image": "owned"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    body = {"metadata": metadata, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    try:
        access.request("POST", deployment_path(NAMESPACE), query={"dryRun": "All"}, body=body)
    except ApiFailure as failure:
        if failure.status != 403:
            raise
        return False
    return True


def owner_in(plane: ControlPlane, name: str) -> dict[str, Any]:
    """Return an owner reference to a Memcached; create the Memcached if it does not exist."""
    found = plane.api.find(memcached_path(NAMESPACE, name))
    if found is None:
        found = plane.api.create(memcached_path(NAMESPACE), memcached(name, 0))
    owner = {"apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": name}
    return {**owner, "uid": found["metadata"]["uid"]}


STUCK = {
    "metadata": {"name": "stuck", "labels": {"app": "memcached", "memcached_cr": "memcached-sample"}},
    "spec": {"schedulerName": "none", "containers": [{"name": "memcached", "image": "image"}]},
}
STUCK_STATUS = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
}
"""Status of a pod that has had no sandbox and volumes for a long time."""


def walk_through_wordpress(plane: ControlPlane) -> None:
    """Create a site, set the reclaim policy to Retain and then Delete, and change a label of the Service."""
    name = "wordpress-blog"
    claims = [f"{name}-mysql-pv-claim", f"{name}-wp-pv-claim"]
    retained = [
        object_path("v1", NAMESPACE, "secrets", f"{name}-mysql"),
        *(object_path("v1", NAMESPACE, "persistentvolumeclaims", claim) for claim in claims),
    ]
    service = object_path("v1", NAMESPACE, "services", name)

    def is_available() -> bool:
        site = plane.api.get(object_path("example.com/v1", NAMESPACE, "wordpresses", name))
        return bool(condition(site, "Available")["status"] == "True")

    def are_owned(*, wanted: bool) -> bool:
        return all(("ownerReferences" in plane.api.get(path)["metadata"]) is wanted for path in retained)

    def kubectl(*arguments: str) -> None:
        plane.kubectl(f"--namespace={NAMESPACE}", *arguments)

    kubectl("apply", "-f", "config/samples/example_v1_wordpress_secret.yaml")
    eventually(is_available)
    for policy in ("Retain", "Delete"):
        change = json.dumps({"spec": {"reclaimPolicy": policy}})
        kubectl("patch", "wordpress", name, "--type=merge", f"--patch={change}")
        eventually(lambda policy=policy: are_owned(wanted=policy == "Delete"))
    kubectl("label", "--overwrite", "service", name, "tier=wrong")
    eventually(lambda: plane.api.get(service)["metadata"]["labels"]["tier"] == "frontend")


def test_manager_role_grants_exactly_the_rights_that_the_samples_use(
    plane: ControlPlane,
    user: Callable[[str], ApiAccess],
    fault_proxy: Callable[[Path], FaultProxy],
    run_manager: RunManager,
    pet_store: PetStoreProcess,
):
    plane.require(Feature.READY_PODS)
    granted = Roles(plane, WORKER, SYSTEM).grant(*MANAGER, *OWNER_REFERENCES, *LEADER_ELECTION)
    worker, known = user(WORKER), owner_in(plane, "known")
    # The server needs some time until it knows new roles and new kinds.
    eventually(lambda: may_own(worker, known))

    proxy = fault_proxy(plane.user_kubeconfig(WORKER))
    for kind in WATCHED:
        # Let the manager list page by page as with an old server, which needs another right.
        body = json.dumps(TOO_OLD_TO_STREAM).encode()
        proxy.answer(422, body=body, match=Match(path=kind, watch=True))
    store = f"--petstore-address={pet_store.address}"
    flags = ("--leader-elect", f"--leader-election-namespace={SYSTEM}", store)
    manager = run_manager(proxy.kubeconfig, *flags).wait_ready()
    standby = run_manager(proxy.kubeconfig, *flags).wait_ready()
    eventually(lambda: proxy.open_watches(Match(path="/leases")) != [])

    def ready(count: int) -> None:
        found = plane.api.get(memcached_path(NAMESPACE, "memcached-sample"))
        assert condition(found, "Available")["status"] == "True"
        assert found["status"]["readyReplicas"] == len(found["status"]["nodes"]) == count

    def kubectl(*arguments: str) -> None:
        plane.kubectl(f"--namespace={NAMESPACE}", *arguments)

    def image() -> str:
        found = plane.api.get(deployment_path(NAMESPACE, "memcached-sample"))
        return str(found["spec"]["template"]["spec"]["containers"][0]["image"])

    def restored() -> int:
        events = plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
        return sum(event["count"] for event in events if event["reason"] == "Restored")

    def put_back(other: str, wanted: str) -> None:
        before = restored()
        kubectl("set", "image", "deployment/memcached-sample", f"memcached={other}")
        eventually(lambda: image() == wanted)
        eventually(lambda: restored() == before + 1)

    def take_owner_off() -> None:
        patch = json.dumps([{"op": "remove", "path": "/metadata/ownerReferences"}])
        kubectl("patch", "deployment", "memcached-sample", "--type=json", f"--patch={patch}")

    def is_owned() -> bool:
        return "ownerReferences" in plane.api.get(deployment_path(NAMESPACE, "memcached-sample"))["metadata"]

    def has_status(api: str, plural: str, name: str) -> bool:
        found = plane.api.get(object_path(api, NAMESPACE, plural, name))
        return bool(found["status"]["observedGeneration"] == found["metadata"]["generation"])

    def cached(kind: str) -> float:
        return manager.metrics().value("operator_manager_cache_objects", kind=kind)

    for each in ("tutorial_v1_foo", "myapp_v1alpha1_mysrv", "petstore_v1beta1_pet"):
        kubectl("apply", "-f", f"config/samples/{each}.yaml")
    eventually(lambda: has_status("tutorial.my.domain/v1", "foos", "foo-01"))
    eventually(lambda: has_status("myapp.idcos.com/v1alpha1", "mysrvs", "mysrv-sample"))

    eventually(lambda: has_status("petstore.example.com/v1beta1", "pets", "pet-sample1"))
    # As left by an earlier manager: the record is added after the Pet was read from the server.
    begun = {**pet("begun"), "metadata": {"name": "begun", "finalizers": [PetOperator.finalizer]}}
    plane.api.create(pet_path(NAMESPACE), begun)
    eventually(lambda: has_status("petstore.example.com/v1beta1", "pets", "begun"))
    kubectl("delete", "pets", "--all")

    walk_through_wordpress(plane)

    kubectl("apply", "-f", "config/samples/cache_v1_memcached.yaml")
    eventually(lambda: ready(3))
    kubectl("scale", "memcached/memcached-sample", "--replicas=5")
    eventually(lambda: ready(5))
    # The operator reads the Events of a scheduled pod that does not start.
    plane.api.create(pod_path(NAMESPACE), STUCK)
    plane.api.patch(f"{pod_path(NAMESPACE, 'stuck')}/status", {"status": STUCK_STATUS})
    field = "involvedObject.uid"
    eventually(lambda: any(field in each.query.get("fieldSelector", "") for each in proxy.exchanges()))
    kubectl("delete", "pod", "stuck")
    kubectl("patch", "memcached", "memcached-sample", "--type=merge", "-p", '{"spec":{"size":0}}')
    eventually(lambda: ready(0))
    wanted = image()
    # The second event increases the count of the first.
    put_back("memcached:1.5", wanted)
    put_back("memcached:1.4", wanted)
    take_owner_off()
    eventually(is_owned)
    kubectl("delete", "memcached", "memcached-sample")
    # The garbage collector deletes its Deployment.
    eventually(lambda: cached("memcacheds.cache.example.com") == 1)

    assert manager.stop() == 0
    eventually(lambda: standby.metrics().value("leader_election_master_status") == 1)
    assert standby.metrics().value("rest_client_requests_total", code="403") == 0
    assert standby.stop() == 0

    assert not [exchange for exchange in proxy.exchanges() if exchange.status in {401, 403}]
    used = {permission_for(exchange) for exchange in proxy.exchanges()} - {None}
    assert used - EVERYBODYS == granted - IMPLIED - UNUSED


def test_admission_plugin_requires_the_finalizers_right_for_block_owner_deletion(
    plane: ControlPlane, user: Callable[[str], ApiAccess]
):
    access, owner, roles = user("owner"), owner_in(plane, "known"), Roles(plane, "owner", SYSTEM)
    roles.grant(*MANAGER)
    eventually(lambda: may_own(access, owner))
    roles.grant(*MANAGER, keep=lambda permission: permission != FINALIZERS)
    eventually(lambda: not may_own(access, owner))
