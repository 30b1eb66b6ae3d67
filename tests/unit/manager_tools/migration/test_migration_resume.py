"""Interrupted, overtaken, twice at once: where the next run goes on, and that it may."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable

import pytest

from devcluster.api.reading import Continuation
from manager_tools.migration.definitions import MigrationFailed
from manager_tools.migration.report import Outcome
from tests.support.scripted_wire import Reply, Sent, Stall, Step
from tests.unit.manager_tools.migration.conftest import Run
from tests.unit.manager_tools.migration.server import (
    DEFINITION,
    GADGETS,
    NEW,
    OLD,
    POSITION,
    GadgetServer,
    gadget_path,
    versions,
)

pytestmark = pytest.mark.virtual_time

Start = Callable[..., Run]


async def interrupted_at(server: GadgetServer, run: Start, name: str) -> None:
    """Cancel a run while it writes `name`."""
    reached = asyncio.Event()

    def look(sent: Sent) -> Step | None:
        if sent.path == gadget_path(name):
            reached.set()
            return Stall()
        return None

    server.before = look
    task = asyncio.create_task(run(concurrency=1)())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.before = lambda sent: None


@pytest.mark.parametrize("expired", [False, True])
async def test_migration_resumes_at_interrupted_page(server: GadgetServer, run: Start, expired: bool):
    await interrupted_at(server, run, "g0007")
    assert server.position() == {
        "uid": server.definition()["metadata"]["uid"],
        "generation": 2,
        "storageVersion": "v1beta1",
        "continue": server.lists()[-1],
        "done": 6,
    }
    if expired:
        server.cluster.faults.expire_history()
    before = len(server.patches())
    again = run()
    assert await again() is Outcome.DONE
    assert sorted(server.patches()[before:]) == ["g0006", "g0007", "g0008", "g0009"]
    assert again.heard.of("advanced")[-1] == (10, 10)
    # An earlier run has waited already.
    assert again.heard.of("settling") == []
    assert server.annotations == {}


async def test_migration_saves_its_position_every_ten_seconds(server: GadgetServer, run: Start):
    server.fill(300)
    await run(rate=10)()
    written = [
        (each.at, each.json()["metadata"]["annotations"]) for each in server.wire.sent("PATCH", DEFINITION)
    ]
    kept = [when for when, annotations in written if annotations[POSITION] is not None]
    # Thirty seconds of work, and no write for each page.
    assert len(kept) == 2
    assert all(10 <= later - sooner < 12 for sooner, later in itertools.pairwise(kept))


async def test_tokens_that_grow_old_on_the_way_lead_on_too(server: GadgetServer, run: Start):
    server.before = lambda sent: server.cluster.faults.expire_history() if sent.path == GADGETS else None
    assert await run()() is Outcome.DONE
    assert sorted(server.patches()) == server.names()


@pytest.mark.parametrize(
    "answer",
    [
        Reply.status(410, "Expired", "too old, and no other"),
        Reply.status(400, "BadRequest", "invalid continue token"),
    ],
    ids=["410", "400"],
)
async def test_migration_starts_over_when_continue_token_is_refused(
    server: GadgetServer, run: Start, answer: Reply
):
    await interrupted_at(server, run, "g0007")
    server.before = lambda sent: answer if sent.path == GADGETS and "continue" in sent.query else None
    before = len(server.patches())
    again = run(page_size=100)
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
async def test_migration_ignores_position_of_another_definition(
    server: GadgetServer, run: Start, change: dict[str, object]
):
    await interrupted_at(server, run, "g0007")
    server.edit_definition(**change)
    again = run(page_size=100)
    assert await again() is Outcome.DONE
    assert again.heard.of("begins") == [(0,)]
    assert server.in_version(server.storage) == 10


NESTED = '{"of others": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    "text",
    ["", "gibberish", "[]", "{}", '{"uid": "uid-1"}', '{"uid": 1}', pytest.param(NESTED, id="too deep")],
)
async def test_migration_ignores_unreadable_position(server: GadgetServer, run: Start, text: str):
    server.edit_definition(metadata={"annotations": {POSITION: text}})
    again = run()
    assert await again() is Outcome.DONE
    assert again.heard.of("begins") == [(0,)]
    assert server.annotations == {}


async def test_migration_removes_leftover_position_when_nothing_is_to_do(server: GadgetServer, run: Start):
    notes = {POSITION: "{}", "other": "kept"}
    server.edit_definition(status={"storedVersions": [NEW]}, metadata={"annotations": notes})
    assert await run()() is Outcome.NOTHING_TO_DO
    assert server.annotations == {"other": "kept"}


async def test_position_stays_at_refused_object(server: GadgetServer, run: Start):
    server.fill(300)
    refusal = Reply.status(422, "Invalid", "no")
    server.before = lambda sent: refusal if sent.path == gadget_path("g0150") else None
    assert await run(rate=10)() is Outcome.REFUSED
    position = server.position()
    assert position is not None
    assert position["done"] == 150


# The definition changes meanwhile.


async def test_migration_restarts_when_definition_changes_during_run(server: GadgetServer, run: Start):
    def change(sent: Sent) -> None:
        if sent.path == gadget_path("g0009") and server.generation == 2:
            # Switch to the old version and back; objects written in between are stored in the old one.
            server.store("g0000")
            server.edit_definition(spec={})

    server.before = change
    migration = run()
    assert await migration() is Outcome.DONE
    assert migration.heard.of("begins anew") == [()]
    assert server.in_version("v1beta1") == 10
    assert server.stored_versions == ["v1beta1"]


@pytest.mark.parametrize("path", [gadget_path("g0009"), f"{DEFINITION}/status"], ids=["pass", "trimming"])
async def test_migration_fails_without_trimming_when_storage_version_changes(
    server: GadgetServer, run: Start, path: str
):
    def change(sent: Sent) -> None:
        if sent.path == path and server.generation == 2:
            server.edit_definition(spec={"versions": versions(storage=OLD)})

    server.before = change
    with pytest.raises(MigrationFailed, match="changed from v1beta1 to v1alpha1"):
        await run()()
    assert server.stored_versions == ["v1alpha1", "v1beta1"]


async def test_migration_fails_when_definition_keeps_changing(server: GadgetServer, run: Start):
    def change(sent: Sent) -> None:
        if sent.path == gadget_path("g0009"):
            server.edit_definition(spec={})

    server.before = change
    with pytest.raises(MigrationFailed, match="keeps changing"):
        await run()()


@pytest.mark.parametrize("answer", [Reply.status(404, "NotFound"), None], ids=["gone", "another"])
async def test_migration_fails_when_definition_is_deleted(
    server: GadgetServer, run: Start, answer: Reply | None
):
    deleted = False

    def delete(sent: Sent) -> Step | None:
        nonlocal deleted
        if sent.path == gadget_path("g0009"):
            deleted = True
            server.edit_definition(metadata={"uid": "another"})
        return answer if deleted and sent.path.startswith(DEFINITION) else None

    server.before = delete
    with pytest.raises(MigrationFailed, match="deleted meanwhile"):
        await run()()


# Two at once.


async def test_migration_succeeds_when_two_runs_overlap(server: GadgetServer, run: Start):
    def slow(sent: Sent) -> Step | None:
        is_patch = sent.method == "PATCH" and sent.path.startswith("/apis/test")
        return server.late(0.5) if is_patch else None

    server.before = slow

    async def later() -> Outcome:
        await asyncio.sleep(2)
        return await run()()

    outcomes = await asyncio.gather(run()(), later())
    assert set(outcomes) == {Outcome.DONE}
    assert server.in_version("v1beta1") == 10
    assert server.stored_versions == ["v1beta1"]
    assert server.annotations == {}


async def test_migration_resumes_at_saved_position_of_another_run(server: GadgetServer, run: Start):
    uid, here = server.definition()["metadata"]["uid"], Continuation(-1, ("default", "g0005"))
    kept = {"uid": uid, "generation": 2, "storageVersion": NEW, "done": 6}
    text = json.dumps({**kept, "continue": here.encode(in_namespace=False)})
    server.edit_definition(metadata={"annotations": {POSITION: text}})
    await run()()
    assert min(server.patches()) == "g0006"
