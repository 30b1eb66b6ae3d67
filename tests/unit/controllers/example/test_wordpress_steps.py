from __future__ import annotations

import asyncio
import base64
import traceback
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from apis.example.v1.wordpress import PASSWORD_LENGTH, Wordpress
from controllers.main import PROGRAM
from devcluster.errors import StatusError
from manager import ObjectKey, Result
from manager.kube.errors import ApiError
from manager_kinds.core_v1 import Secret
from tests.unit.controllers.example.world import SECRET, SITES, Process, World, in_process_cluster
from tests.unit.controllers.fate import Fate

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with in_process_cluster() as cluster:
        yield World(cluster, "team")


def behind(world: World) -> Process:
    """Start a manager whose cache misses all changes after the current state of the site."""
    process = world.process()
    site = world.site()
    process.client.stale[site.key] = Wordpress.decode(orjson.dumps(site.to_wire()))
    return process


async def test_wordpress_steps_create_no_new_password_for_a_deleted_site(world: World):
    # The volumes are retained, so no other step checks whether the site still exists.
    await world.run()
    process = behind(world)
    await world.api.delete(SITES, world.namespace, "site")
    await world.api.delete("secrets", world.namespace, SECRET)
    assert await process.reconcile(world.key) is None
    assert world.api.peek("secrets", world.namespace, SECRET) is None


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_wordpress_steps_create_no_volume_or_password_for_a_deleted_or_recreated_site(
    world: World, policy: str, again: bool
):
    # A new leader's cache may miss the deletion. Retained children have no owner, so nothing deletes them.
    await world.create(reclaimPolicy=policy, storageSize="20Gi")
    process = behind(world)
    await world.api.delete(SITES, world.namespace, "site")
    if again:
        await world.create_site(storageSize="10Gi")
    assert await process.reconcile(world.key) is None
    assert world.children() == {}


async def test_recreated_site_gets_volumes_of_its_own_size_while_the_cache_shows_the_old_site(world: World):
    # A volume cannot shrink.
    await world.run(storageSize="10Gi")
    await world.change(storageSize="20Gi")
    process = behind(world)
    await world.api.delete(SITES, world.namespace, "site")
    await world.create_site(storageSize="10Gi")
    assert await process.reconcile(world.key) is None
    claims = [world.api.peek("persistentvolumeclaims", world.namespace, name) for name in CLAIMS]
    assert [each["spec"]["resources"]["requests"]["storage"] for each in claims if each] == ["10Gi"] * 2


CLAIMS = ("site-mysql-pv-claim", "site-wp-pv-claim")
RETAINED = (("secrets", SECRET), *(("persistentvolumeclaims", name) for name in CLAIMS))
WORKLOADS = (
    ("deployments.apps", "site-mysql"),
    ("services", "site-mysql"),
    ("deployments.apps", "site"),
    ("services", "site"),
)


async def test_reclaim_policy_change_updates_the_owner_references_of_all_retained_objects(world: World):
    await world.run()
    process = world.process()
    await process.reconcile(world.key)
    for policy in ("Delete", "Retain"):
        await world.change(reclaimPolicy=policy)
        await process.reconcile(world.key)
        found = [world.api.peek(kind, world.namespace, name) for kind, name in RETAINED]
        owned = [bool(each["metadata"].get("ownerReferences")) for each in found if each]
        assert owned == [policy == "Delete"] * len(RETAINED)


async def take_owners_off(world: World, children: Iterable[tuple[str, str]] = WORKLOADS) -> None:
    for kind, name in children:
        await world.api.patch(kind, world.namespace, name, {"metadata": {"ownerReferences": None}})


async def test_removed_owner_references_and_changed_labels_of_children_are_restored(world: World):
    await world.run()
    before = world.children()
    await take_owners_off(world)
    for kind, name in RETAINED:
        await world.api.patch(kind, world.namespace, name, {"metadata": {"labels": {"tier": "wrong"}}})
    await world.settle()
    assert world.children() == before
    assert world.conditions()["Degraded"] == ("False", "AsExpected")
    restored = [message for _, _, reason, message in world.events.told if reason == "Restored"]
    assert len(restored) == len(WORKLOADS) + len(RETAINED)
    begin = "Put PersistentVolumeClaim site-mysql-pv-claim back as it should be: "
    [of_claim] = [each.removeprefix(begin) for each in restored if each.startswith(begin)]
    assert of_claim.endswith(" had set .metadata.labels.tier")


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_orphaned_children_get_no_owner_until_a_site_with_the_same_name_is_created(
    world: World, policy: str
):
    # `kubectl delete --cascade=orphan` removes the owner references of the children. A manager with a stale
    # cache must not restore them, because the garbage collector deletes children with an owner.
    await world.run(reclaimPolicy=policy)
    before = world.children()
    process = behind(world)
    await world.api.delete(SITES, world.namespace, "site", propagation="Orphan")
    await take_owners_off(world, (*WORKLOADS, *RETAINED))
    version = world.cluster.store.version
    assert await process.reconcile(world.key) is None
    assert world.cluster.store.version == version

    await world.api.patch(SITES, world.namespace, "site", {"metadata": {"finalizers": None}})
    await world.create_site(reclaimPolicy=policy)
    await world.settle()
    assert world.children() == before
    assert len(world.passwords) == 1


async def test_wordpress_condition_reports_taken_child_names_and_a_missing_secret_together(world: World):
    ports = {"ports": [{"port": 9}]}
    await world.api.create("namespaces", "", {"metadata": {"name": world.namespace}})
    for name in ("site-mysql", "site"):
        await world.api.create("services", world.namespace, {"metadata": {"name": name}, "spec": ports})
    await world.create_site(sqlrootpassword="", sqlRootPasswordSecretRef={"name": "nosuch", "key": "root"})
    await world.settle()
    told = [
        "waiting for Secret nosuch with the root password",
        "Service site-mysql already exists and was created by somebody else; it is left alone",
        "Service site already exists and was created by somebody else; it is left alone",
    ]
    [degraded] = [each for each in world.site().status.conditions if each.type == "Degraded"]
    assert (degraded.reason, degraded.message) == ("SecretNotFound", "; ".join(told))
    assert [message for _, kind, _, message in world.events.told if kind == "Warning"] == told

    # With the Secret, only the taken names block the site.
    given = {"metadata": {"name": "nosuch"}, "data": {"root": "eA=="}}
    await world.api.create("secrets", world.namespace, given)
    await world.settle()
    [degraded] = [each for each in world.site().status.conditions if each.type == "Degraded"]
    assert (degraded.reason, degraded.message) == ("NameTaken", "; ".join(told[1:]))
    for name in ("site-mysql", "site"):
        await world.api.delete("services", world.namespace, name)
    await world.settle()
    assert world.conditions()["Available"] == ("True", "Ready")


def base64_of(**values: str) -> dict[str, str]:
    return {key: base64.b64encode(value.encode("latin-1")).decode() for key, value in values.items()}


async def live(world: World, process: Process) -> None:
    """Reconcile five times with one manager, and make the Deployments ready in between."""
    for _ in range(4):
        await process.reconcile(world.key)
        await world.bring_up()
    await process.reconcile(world.key)


async def test_wordpress_waits_for_a_valid_secret_and_stays_available_when_the_secret_changes(world: World):
    await world.create(sqlrootpassword="", sqlRootPasswordSecretRef={"name": "given", "key": "root"})
    process = world.process()

    async def says(reason: str, **data: str) -> None:
        if data:
            await world.api.patch("secrets", world.namespace, "given", {"data": base64_of(**data)})
        await live(world, process)
        assert world.conditions()["Degraded"] == ("True", reason)
        assert world.events.reasons.count(("site", reason)) == 1

    await says("SecretNotFound")
    assert world.conditions()["Progressing"] == ("True", "SecretNotFound")
    await world.api.create("secrets", world.namespace, {"metadata": {"name": "given"}, "data": {}})
    await says("SecretKeyNotFound", other="x")
    await says("SecretKeyEmpty", root="")
    # `kubectl create secret --from-file` keeps the line break at the end of a file.
    await says("SecretValueUnfit", root="from-a-file\n")
    for unfit in ("\xff\xff", "p" * (PASSWORD_LENGTH + 1)):
        await says("SecretValueUnfit", root=unfit)
    assert world.api.peek("secrets", world.namespace, SECRET) is None
    await world.api.patch("secrets", world.namespace, "given", {"data": base64_of(root="from-a-file")})
    await live(world, process)
    assert world.conditions()["Available"] == ("True", "Ready")
    # The database has the password now; a change of the source Secret needs only a message.
    await says("RootPasswordDiffers", root="changed")
    await world.api.delete("secrets", world.namespace, "given")
    await live(world, process)
    assert world.conditions()["Degraded"] == ("False", "AsExpected")
    assert world.conditions()["Available"] == ("True", "Ready")
    stored: Any = world.api.peek("secrets", world.namespace, SECRET)
    assert stored["data"]["root-password"] == base64_of(x="from-a-file")["x"]


async def test_wordpress_becomes_unavailable_when_its_database_deployment_is_deleted(world: World):
    await world.run()
    await world.api.delete("deployments.apps", world.namespace, "site-mysql")
    await world.process().reconcile(world.key)
    assert world.conditions()["Available"] == ("False", "DatabaseNotReady")
    assert world.conditions()["Progressing"] == ("True", "RollingOut")


async def test_wordpress_adopts_a_secret_labelled_for_the_site_when_the_secret_is_complete(world: World):
    labels = {"app.kubernetes.io/managed-by": PROGRAM.name, "app.kubernetes.io/instance": "site"}
    given = {"metadata": {"name": SECRET, "labels": labels}, "data": base64_of(**{"root-password": "old"})}
    await world.create(sqlrootpassword="old")
    await world.api.create("secrets", world.namespace, given)
    await world.settle()
    assert world.conditions()["Degraded"] == ("True", "SecretIncomplete")
    await world.api.patch("secrets", world.namespace, SECRET, {"data": base64_of(password="of-a-backup")})
    await world.settle()
    assert world.conditions()["Available"] == ("True", "Ready")
    assert world.passwords == {"of-a-backup"}


async def test_wordpress_password_is_renewed_when_its_secret_was_deleted(world: World):
    await world.run()
    await world.api.delete("secrets", world.namespace, SECRET)
    await world.settle()
    assert world.events.reasons.count(("site", "PasswordRenewed")) == 1
    assert len(world.passwords) == 2


DENIED = 'admission webhook "no.example.com" denied the request'


@pytest.mark.parametrize(
    "refusal",
    [
        StatusError(403, "Forbidden", "is not expandable"),
        StatusError(400, "", f"{DENIED} without explanation"),  # a webhook may give no status code
    ],
    ids=["server", "webhook"],
)
async def test_refused_volume_expansion_is_reported_once_and_retried_later(
    world: World, refusal: StatusError
):
    await world.run(storageSize="1Gi")
    await world.change(storageSize="2Gi")
    fate = Fate(dict.fromkeys(range(2), refusal))
    process = world.process(fate)
    assert await process.reconcile(world.key) == Result(requeue_after=300)
    assert world.conditions()["Degraded"] == ("True", "VolumeNotGrown")
    assert world.conditions()["Available"] == ("True", "Ready")
    assert [each.split("/")[-1] for each in fate.passed] == [*CLAIMS, "status"]
    assert await process.reconcile(world.key) is not None
    assert len(fate.passed) == 3
    assert world.events.reasons.count(("site", "VolumeNotGrown")) == 2
    await asyncio.sleep(301)
    assert await process.reconcile(world.key) is None
    assert world.events.reasons.count(("site", "Grown")) == 2
    assert world.conditions()["Degraded"] == ("False", "AsExpected")


@pytest.mark.parametrize("leaves", ["gone", "going"])
async def test_wordpress_is_degraded_by_child_names_of_another_site_only_until_that_site_is_deleted(
    world: World, leaves: str
):
    # The Deployment and Service of the database of `site` have the names of the frontend of `site-mysql`.
    await world.run()
    world.key = ObjectKey(world.namespace, "site-mysql")
    spec = {"sqlrootpassword": "in-the-open"}
    await world.api.create(SITES, world.namespace, {"metadata": {"name": world.key.name}, "spec": spec})
    await world.settle()
    assert world.conditions("site-mysql")["Degraded"] == ("True", "NameTaken")
    # The taken names are those of the frontend, so the database runs.
    assert world.conditions("site-mysql")["DatabaseReady"] == ("True", "Ready")
    assert world.conditions("site-mysql")["Available"] == ("False", "NameTaken")
    assert world.events.reasons.count(("site-mysql", "NameTaken")) == 2
    # The garbage collector removes one child after the other, in any order.
    if leaves == "going":
        await world.api.patch(SITES, world.namespace, "site", {"metadata": {"finalizers": ["test/x"]}})
    await world.api.delete(SITES, world.namespace, "site")
    await world.api.delete("deployments.apps", world.namespace, "site-mysql")
    await world.settle()
    assert world.conditions("site-mysql")["Degraded"] == ("False", "AsExpected")
    assert world.conditions("site-mysql")["Progressing"] == ("True", "LeftOver")
    await world.api.delete("services", world.namespace, "site-mysql")
    await world.settle()
    assert world.conditions("site-mysql")["Available"] == ("True", "Ready")
    assert world.events.reasons.count(("site-mysql", "NameTaken")) == 2


QUOTED = base64.b64encode(b"in-the-open").decode()
QUOTA = StatusError(403, "Forbidden", "exceeded quota: small")


@pytest.mark.parametrize(
    ("write", "refusal", "told"),
    [
        (0, QUOTA, "PersistentVolumeClaim site-mysql-pv-claim is refused: exceeded quota: small"),
        (1, QUOTA, "PersistentVolumeClaim site-wp-pv-claim is refused: exceeded quota: small"),
        (2, StatusError(403, "Forbidden", QUOTED), f"Secret {SECRET} is refused: 403 Forbidden"),
        (2, StatusError(422, "Invalid", QUOTED), f"Secret {SECRET} is refused: 422 Invalid"),
        (3, QUOTA, "Deployment site-mysql is refused: exceeded quota: small"),
        (4, QUOTA, "Service site-mysql is refused: exceeded quota: small"),
    ],
)
async def test_wordpress_event_and_status_name_the_refused_child_and_omit_the_password(
    world: World, write: int, refusal: StatusError, told: str
):
    await world.create()
    process = world.process(Fate({write: refusal}))
    assert await process.reconcile(world.key) == Result(requeue_after=300)
    assert world.conditions()["Degraded"] == ("True", "Refused")
    assert world.conditions()["Progressing"] == ("False", "Refused")
    [warning] = [message for _, kind, _, message in world.events.told if kind == "Warning"]
    assert warning.startswith(told)
    status = str(world.api.peek(SITES, world.namespace, "site")["status"])
    assert told in status
    assert QUOTED not in warning + status
    await world.settle()
    assert world.conditions()["Degraded"] == ("False", "AsExpected")
    assert len(world.children()) == 7
    # The Secret is immutable, because it has the only copy of the passwords.
    assert world.api.peek("secrets", world.namespace, SECRET)["immutable"] is True


@pytest.mark.parametrize("status", [400, 403, 409, 418, 422])
@pytest.mark.parametrize("write", range(5))
async def test_wordpress_is_blocked_when_a_webhook_refuses_a_child_with_any_status_code(
    world: World, write: int, status: int
):
    await world.create()
    denial = StatusError(status, "", f"{DENIED}: no")
    assert await world.process(Fate({write: denial})).reconcile(world.key) == Result(requeue_after=300)
    assert world.conditions()["Degraded"] == ("True", "Refused")


async def test_wordpress_sends_an_event_of_each_long_problem_only_once(world: World):
    await world.create()
    refusals = {at: StatusError(403, "Forbidden", f"quota {at}: {'x' * 1100}") for at in range(2)}
    for _ in range(2):
        await world.process(Fate(refusals)).reconcile(world.key)
        assert world.events.reasons.count(("site", "Refused")) == 2
        (message,) = (each.message for each in world.site().status.conditions if each.type == "Degraded")
        assert len(message) <= 1024
    refusals[2] = refusals.pop(0)
    await world.process(Fate({0: refusals[1]})).reconcile(world.key)
    assert world.events.reasons.count(("site", "Refused")) == 3
    # One problem is left, whose message is no longer cut after half of the length.
    await world.process(Fate({0: refusals[1]})).reconcile(world.key)
    assert world.events.reasons.count(("site", "Refused")) == 3


async def test_wordpress_reports_no_refusal_when_its_namespace_is_terminating(world: World):
    await world.create()
    await world.api.delete("namespaces", "", world.namespace)
    assert await world.process().reconcile(world.key) is None
    assert (world.children(), world.conditions(), world.events.told) == ({}, {}, [])


@pytest.mark.parametrize(
    ("repaired", "status", "reason"),
    [
        (False, 500, "InternalError"),
        *((True, *refusal) for refusal in ((500, "InternalError"), (403, "Forbidden"), (422, "Invalid"))),
    ],
)
async def test_wordpress_reconcile_error_omits_a_password_quoted_in_the_refusal_of_a_secret(
    world: World, repaired: bool, status: int, reason: str
):
    await world.create(sqlrootpassword="to-be-quoted")
    quoted = base64.b64encode(b"to-be-quoted").decode()
    if repaired:
        await world.settle()
        changed = {"metadata": {"labels": {"app.kubernetes.io/name": None}}}
        await world.api.patch("secrets", world.namespace, SECRET, changed)
    write = 0 if repaired else 2  # the third write of a new site, after the claims
    process = world.process(Fate({write: StatusError(status, reason, f"{quoted} is not liked")}))
    with pytest.raises(ApiError) as failed:
        await process.reconcile(world.key)
    doing = "changing" if repaired else "creating"
    assert f"{doing} Secret site-mysql failed with {status}" in str(failed.value)
    assert quoted not in "".join(traceback.format_exception(failed.value))


async def test_wordpress_reads_its_secret_only_when_another_client_has_changed_it(world: World):
    await world.create()
    process, read = world.process(), list[str]()
    live_reader = process.client.uncached

    async def get(kind: Any, key: ObjectKey) -> Any:
        read.extend([key.name] if kind is Secret else [])
        return await live_reader.get(kind, key)

    # `find`, which replaces reads of cached metadata, uses the original `get`.
    process.client.uncached = SimpleNamespace(find=live_reader.find, get=get)  # type: ignore[assignment]
    await live(world, process)
    assert world.conditions()["DatabaseReady"] == ("True", "Ready")
    assert read == []
    await world.api.patch("secrets", world.namespace, SECRET, {"metadata": {"annotations": {"by": "hand"}}})
    await live(world, process)
    assert read == [SECRET]
