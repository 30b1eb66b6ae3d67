from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from manager.api import ObjectKey
from manager.kube.errors import Unauthorized, Unreachable
from manager_tools.migration.definitions import MigrationFailed
from manager_tools.migration.report import Outcome
from tests.support.scripted_wire import LostAfter, Reply, Sent, Stall, Step, Unreached
from tests.unit.manager_tools.migration.conftest import Run
from tests.unit.manager_tools.migration.server import (
    DEFINITION,
    GADGETS,
    NEW,
    OLD,
    POSITION,
    REVIEWS,
    GadgetServer,
    gadget_path,
    versions,
)

pytestmark = pytest.mark.virtual_time

CRDS = "customresourcedefinitions"
G4 = ObjectKey("default", "g0004")
G9 = gadget_path("g0009")


def at(path: str, *steps: Step, method: str = "PATCH") -> Callable[[Sent], Step | None]:
    """Return a function for `GadgetServer.before`: `steps` answer the first requests of the path."""
    left = list(steps)

    def answer(sent: Sent) -> Step | None:
        return left.pop(0) if left and (sent.method, sent.path) == (method, path) else None

    return answer


def is_rewrite(sent: Sent) -> bool:
    return sent.method == "PATCH" and sent.path.startswith("/apis/test")


async def test_migration_rewrites_every_object_of_the_old_version_and_trims_stored_versions(
    server: GadgetServer,
):
    server.store("g0003", NEW)
    migration = Run(server, settle=7.5)
    assert await migration() is Outcome.DONE
    assert server.wire.sent("PATCH")[0].at >= 7.5
    assert server.in_version("v1beta1") == 10
    assert server.stored_versions == ["v1beta1"]
    assert server.annotations == {}
    tally = migration.migration.tally
    assert (tally.rewritten, tally.no_need, tally.gone, tally.refused) == (9, 1, 0, 0)
    assert migration.heard.of("advanced")[-1] == (10, 10)
    before = len(server.wire.requests)
    assert await Run(server)() is Outcome.NOTHING_TO_DO
    assert [each.method for each in server.wire.requests[before:]] == ["GET"]


def vanishes(server: GadgetServer) -> None:
    server.remove("g0004")


def is_written_by_others(server: GadgetServer) -> Step:
    server.store("g0004", NEW)
    return Reply.status(409, "Conflict", "the object has been modified")


@pytest.mark.parametrize("status", [True, False])
@pytest.mark.parametrize(
    ("act", "tally"),
    [
        (vanishes, (9, 1, 0)),
        (is_written_by_others, (10, 0, 0)),
        (lambda _: Reply(404, body=b"404 page not found"), (9, 0, 1)),
        (lambda _: Reply.status(404, "NotFound", "could not find the requested resource"), (9, 0, 1)),
        (lambda _: Reply.status(409, "Conflict", "admission webhook says no"), (9, 0, 1)),
    ],
    ids=["object deleted", "object rewritten", "plain 404", "path not found", "webhook refuses"],
)
async def test_migration_counts_a_failed_patch_as_refused_unless_the_object_was_deleted_or_rewritten(
    server: GadgetServer,
    act: Callable[[GadgetServer], Step | None],
    tally: tuple[int, int, int],
    status: bool,
):
    server.edit_definition(spec={"versions": versions(status=status)})
    path = gadget_path("g0004", subresource="/status" if status else "")
    server.before = lambda sent: act(server) if sent.path == path else None
    migration = Run(server)
    refused = tally[2] > 0
    assert await migration() is (Outcome.REFUSED if refused else Outcome.DONE)
    found = migration.migration.tally
    assert (found.rewritten, found.gone, found.refused) == tally
    assert server.stored_versions == ([OLD, NEW] if refused else [NEW])
    assert ("g0004" in server.names()) is (act is not vanishes)


async def test_migration_uses_a_served_version_when_the_storage_version_is_not_served(server: GadgetServer):
    server.edit_definition(spec={"versions": versions(served=(OLD,))})
    assert await Run(server)() is Outcome.DONE
    assert server.in_version("v1beta1") == 10
    assert server.wire.sent("GET", GADGETS) == []


async def test_migration_fails_when_no_version_is_served(server: GadgetServer):
    server.edit_definition(spec={"versions": versions(served=())})
    with pytest.raises(MigrationFailed, match="no version is served"):
        await Run(server)()
    assert server.stored_versions == ["v1alpha1", "v1beta1"]


async def test_migration_respects_concurrency_and_rate_limits(server: GadgetServer):
    most = 0

    async def slow(sent: Sent) -> Step:
        nonlocal most
        most = max(most, server.wire.in_progress)
        await asyncio.sleep(0.3)
        return await server.answer(sent)

    server.before = lambda sent: slow if is_rewrite(sent) else None
    await Run(server, concurrency=3, page_size=100, rate=5, settle=0)()
    assert most == 3
    sent = [each.at for each in server.wire.sent("PATCH", "/apis/test.example.com/*")]
    # A burst of three requests, then five requests per second.
    assert sent[-1] - sent[0] >= (10 - 3) / 5


async def test_migration_reports_a_refused_object_and_the_next_run_resumes_at_its_page(server: GadgetServer):
    reason = 'Gadget.test.example.com "g0004" is invalid: spec.size: Invalid value: 3:\n too large'
    server.before = at(gadget_path("g0004"), Reply.status(422, "Invalid", reason))
    migration = Run(server)
    assert await migration() is Outcome.REFUSED
    assert migration.heard.of("refused") == [(G4, reason.replace("\n", ""))]
    assert server.stored_versions == ["v1alpha1", "v1beta1"]
    assert server.in_version("v1beta1") == 9  # all other objects
    before = len(server.patches())
    assert await Run(server)() is Outcome.DONE
    assert server.patches()[before] == "g0003"  # the first object of the page of g0004
    assert server.stored_versions == ["v1beta1"]


async def test_migration_counts_an_object_as_refused_after_four_server_errors(server: GadgetServer):
    failure = Reply.status(500, "InternalError", "failed calling webhook: no answer")
    server.before = at(gadget_path("g0004"), *[failure] * 99)
    migration = Run(server)
    assert await migration() is Outcome.REFUSED
    assert server.patches().count("g0004") == 4
    assert migration.heard.of("refused") == [(G4, "failed calling webhook: no answer")]


async def test_migration_fails_early_when_the_server_fails_for_every_object(server: GadgetServer):
    server.fill(1000)
    failure = Reply.status(500, "InternalError", "conversion webhook failed")
    server.before = lambda sent: failure if sent.path.endswith("/status") else None
    with pytest.raises(MigrationFailed, match="conversion webhook failed"):
        await Run(server)()
    assert len(set(server.patches())) < 30
    assert server.stored_versions == ["v1alpha1", "v1beta1"]


@pytest.mark.parametrize(
    "trouble",
    [
        Unreached(),
        LostAfter(),
        *(Reply.status(code, "Failed") for code in (429, 500, 503, 504)),
        Reply.status(409, "Conflict"),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", GADGETS),
        ("PATCH", gadget_path("g0002")),
        ("PATCH", f"{DEFINITION}/status"),
        ("PATCH", DEFINITION),
        ("POST", REVIEWS),
    ],
)
async def test_migration_succeeds_when_requests_fail_twice_with_transient_errors(
    server: GadgetServer, trouble: Step, method: str, path: str
):
    server.edit_definition(metadata={"annotations": {POSITION: "of an earlier run"}})
    server.before = at(path, trouble, trouble, method=method)
    assert await Run(server)() is Outcome.DONE
    assert len(server.wire.sent(method, path)) > 2
    assert server.in_version("v1beta1") == 10
    assert server.stored_versions == ["v1beta1"]
    assert server.annotations == {}


async def test_migration_with_an_unreachable_server_fails_and_the_next_run_resumes(server: GadgetServer):
    gone = False

    def leave(sent: Sent) -> Step | None:
        nonlocal gone
        gone = gone or sent.path == gadget_path("g0007")
        return Unreached() if gone and not sent.path.startswith(DEFINITION) else None

    server.before = leave
    migration = Run(server)
    with pytest.raises(Unreachable):
        await migration()
    assert migration.heard.of("waiting")
    server.before = lambda sent: None
    before, again = len(server.patches()), Run(server)
    assert await again() is Outcome.DONE
    assert [after for _, after in again.heard.of("begins")] == [6]
    assert min(server.patches()[before:]) == "g0006"


async def test_migration_fails_without_retry_when_credentials_are_refused(server: GadgetServer):
    server.before = at(gadget_path("g0007"), Reply.status(401, "Unauthorized"))
    migration = Run(server)
    with pytest.raises(Unauthorized):
        await migration()
    assert migration.heard.of("refused") == []


@pytest.mark.parametrize(
    ("right", "told"),
    [
        (("list", "gadgets", ""), "list gadgets.test.example.com"),
        (("patch", "gadgets", "status"), "patch gadgets/status.test.example.com"),
        (("patch", CRDS, ""), f"patch {CRDS}.apiextensions.k8s.io"),
        (("patch", CRDS, "status"), f"patch {CRDS}/status."),
    ],
)
async def test_migration_error_names_a_missing_right_and_nothing_is_written(
    server: GadgetServer, right: Any, told: str
):
    server.denied.add(right)
    with pytest.raises(MigrationFailed, match=told):
        await Run(server)()
    assert server.wire.sent("PATCH") == []


async def test_migration_succeeds_when_access_reviews_are_forbidden(server: GadgetServer):
    server.before = at(REVIEWS, Reply.status(403, "Forbidden"), method="POST")
    assert await Run(server)() is Outcome.DONE


async def test_migration_dry_run_reports_refusals_and_writes_nothing(server: GadgetServer):
    before = server.cluster.store.version
    server.denied.add(("patch", CRDS, "status"))
    server.before = at(gadget_path("g0004"), Reply.status(422, "Invalid", "too large"))
    migration = Run(server, dry_run=True)
    assert await migration() is Outcome.REFUSED
    assert migration.heard.of("refused") == [(G4, "too large")]
    assert await Run(server, dry_run=True)() is Outcome.DONE
    assert server.in_version("v1alpha1") == 10
    assert server.cluster.store.version == before
    assert {each.query["dryRun"] for each in server.wire.sent("PATCH")} == {"All"}


async def interrupted_at(server: GadgetServer, name: str) -> None:
    """Start a migration, and cancel it while it patches the gadget `name`."""
    reached = asyncio.Event()

    def look(sent: Sent) -> Step | None:
        if sent.path == gadget_path(name):
            reached.set()
            return Stall()
        return None

    server.before = look
    task = asyncio.create_task(Run(server, concurrency=1)())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.before = lambda sent: None


@pytest.mark.parametrize("expired", [False, True])
async def test_migration_resumes_at_the_page_of_the_last_interruption(server: GadgetServer, expired: bool):
    await interrupted_at(server, "g0007")
    assert json.loads(server.annotations[POSITION]) == {
        "uid": server.definition()["metadata"]["uid"],
        "generation": 2,
        "storageVersion": "v1beta1",
        "continue": server.wire.sent("GET", GADGETS)[-1].query["continue"],
        "done": 6,
    }
    if expired:
        server.cluster.faults.expire_history()
    before = len(server.patches())
    again = Run(server)
    assert await again() is Outcome.DONE
    assert sorted(server.patches()[before:]) == ["g0006", "g0007", "g0008", "g0009"]
    assert again.heard.of("advanced")[-1] == (10, 10)
    # The earlier run has already waited until all API servers know the CRD.
    assert again.heard.of("settling") == []
    assert server.annotations == {}


async def test_migration_saves_its_position_in_a_crd_annotation_every_ten_seconds(server: GadgetServer):
    server.fill(300)
    await Run(server, rate=10)()
    written = [
        (each.at, each.json()["metadata"]["annotations"]) for each in server.wire.sent("PATCH", DEFINITION)
    ]
    kept = [when for when, annotations in written if annotations[POSITION] is not None]
    # Thirty seconds of work, with fewer position writes than pages.
    assert len(kept) == 2
    assert all(10 <= later - sooner < 12 for sooner, later in itertools.pairwise(kept))


async def test_migration_rewrites_each_object_once_when_continue_tokens_expire(server: GadgetServer):
    server.before = lambda sent: server.cluster.faults.expire_history() if sent.path == GADGETS else None
    assert await Run(server)() is Outcome.DONE
    assert sorted(server.patches()) == server.names()


@pytest.mark.parametrize(
    "answer",
    [
        Reply.status(410, "Expired", "too old, and no other"),
        Reply.status(400, "BadRequest", "invalid continue token"),
    ],
    ids=["410", "400"],
)
async def test_migration_restarts_at_the_first_page_when_its_continue_token_is_refused(
    server: GadgetServer, answer: Reply
):
    await interrupted_at(server, "g0007")
    server.before = lambda sent: answer if sent.path == GADGETS and "continue" in sent.query else None
    before = len(server.patches())
    again = Run(server, page_size=100)
    assert await again() is Outcome.DONE
    assert sorted(server.patches()[before:]) == server.names()
    assert again.heard.of("advanced")[-1] == (10, 10)


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"uid": "uid-of-another-definition"}},
        {"spec": {}},
        {"spec": {"versions": versions(storage=OLD)}},
    ],
    ids=["uid", "generation", "storage"],
)
async def test_migration_ignores_the_saved_position_when_the_crd_has_changed(
    server: GadgetServer, change: dict[str, object]
):
    await interrupted_at(server, "g0007")
    server.edit_definition(**change)
    again = Run(server, page_size=100)
    assert await again() is Outcome.DONE
    assert [after for _, after in again.heard.of("begins")] == [0]
    assert server.in_version(server.storage) == 10


NESTED = '{"of others": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    "text",
    ["", "gibberish", "[]", "{}", '{"uid": "uid-1"}', '{"uid": 1}', pytest.param(NESTED, id="too deep")],
)
async def test_migration_ignores_an_unreadable_saved_position(server: GadgetServer, text: str):
    server.edit_definition(metadata={"annotations": {POSITION: text}})
    again = Run(server)
    assert await again() is Outcome.DONE
    assert [after for _, after in again.heard.of("begins")] == [0]
    assert server.annotations == {}


async def test_migration_removes_the_saved_position_when_there_is_no_work(server: GadgetServer):
    notes = {POSITION: "{}", "other": "kept"}
    server.edit_definition(status={"storedVersions": [NEW]}, metadata={"annotations": notes})
    assert await Run(server)() is Outcome.NOTHING_TO_DO
    assert server.annotations == {"other": "kept"}


async def test_migration_restarts_when_the_crd_changes_during_the_run(server: GadgetServer):
    def change(sent: Sent) -> None:
        if sent.path == G9 and server.generation == 2:
            # As after a switch to the old storage version and back, with a write in between.
            server.store("g0000")
            server.edit_definition(spec={})

    server.before = change
    migration = Run(server)
    assert await migration() is Outcome.DONE
    assert migration.heard.of("begins_anew") == [()]
    assert server.in_version("v1beta1") == 10
    assert server.stored_versions == ["v1beta1"]


@pytest.mark.parametrize(
    ("path", "storage", "told"),
    [
        (G9, OLD, "changed from v1beta1 to v1alpha1"),
        (f"{DEFINITION}/status", OLD, "changed from v1beta1 to v1alpha1"),
        (G9, NEW, "keeps changing"),
    ],
    ids=["pass", "trimming", "every pass"],
)
async def test_migration_fails_when_the_crd_changes_its_storage_version_or_changes_in_every_pass(
    server: GadgetServer, path: str, storage: str, told: str
):
    change = {"versions": versions(storage=storage)}
    server.before = lambda sent: server.edit_definition(spec=change) if sent.path == path else None
    with pytest.raises(MigrationFailed, match=told):
        await Run(server)()
    assert server.stored_versions == ["v1alpha1", "v1beta1"]


@pytest.mark.parametrize("answer", [Reply.status(404, "NotFound"), None], ids=["deleted", "recreated"])
async def test_migration_fails_if_the_crd_is_deleted_or_recreated(server: GadgetServer, answer: Reply | None):
    deleted = False

    def delete(sent: Sent) -> Step | None:
        nonlocal deleted
        if sent.path == G9:
            deleted = True
            server.edit_definition(metadata={"uid": "another"})
        return answer if deleted and sent.path.startswith(DEFINITION) else None

    server.before = delete
    with pytest.raises(MigrationFailed, match="deleted meanwhile"):
        await Run(server)()


async def test_migration_runs_of_the_same_crd_both_succeed_when_they_overlap(server: GadgetServer):
    server.before = lambda sent: server.late(0.5) if is_rewrite(sent) else None

    async def later() -> Outcome:
        await asyncio.sleep(2)
        return await Run(server)()

    outcomes = await asyncio.gather(Run(server)(), later())
    assert set(outcomes) == {Outcome.DONE}
    assert server.in_version("v1beta1") == 10
    assert server.stored_versions == ["v1beta1"]
    assert server.annotations == {}
