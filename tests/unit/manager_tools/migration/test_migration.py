from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from manager.kube.errors import Unauthorized, Unreachable
from manager_tools.migration.definitions import MigrationFailed
from manager_tools.migration.report import Outcome
from tests.support.scripted_wire import LostAfter, Reply, Sent, Step, Unreached
from tests.unit.manager_tools.migration.conftest import Run
from tests.unit.manager_tools.migration.server import (
    DEFINITION,
    GADGETS,
    NEW,
    OLD,
    REVIEWS,
    GadgetServer,
    gadget_path,
    versions,
)

pytestmark = pytest.mark.virtual_time

Start = Callable[..., Run]


def at(path: str, *steps: Step, method: str = "PATCH") -> Callable[[Sent], Step | None]:
    """Answer the first requests of that path with these steps, all others with the server's own answers."""
    left = list(steps)

    def answer(sent: Sent) -> Step | None:
        return left.pop(0) if left and (sent.method, sent.path) == (method, path) else None

    return answer


async def test_migration_rewrites_every_object_and_trims_stored_versions(server: GadgetServer, run: Start):
    migration = run(settle=7.5)
    assert await migration() is Outcome.DONE
    assert server.wire.sent("PATCH")[0].at >= 7.5
    assert server.in_version("v1beta1") == 10
    assert server.stored_versions == ["v1beta1"]
    assert server.annotations == {}
    tally = migration.migration.tally
    assert (tally.rewritten, tally.no_need, tally.gone, tally.refused) == (10, 0, 0, 0)
    assert migration.heard.of("advanced")[-1] == (10, 10)


async def test_second_migration_finds_nothing_to_do(server: GadgetServer, run: Start):
    server.store("g0003", NEW)
    migration = run()
    await migration()
    assert (migration.migration.tally.rewritten, migration.migration.tally.no_need) == (9, 1)
    before = len(server.wire.requests)
    assert await run()() is Outcome.NOTHING_TO_DO
    assert [each.method for each in server.wire.requests[before:]] == ["GET"]


@pytest.mark.parametrize("status", [True, False])
async def test_migration_counts_vanished_object_as_gone_and_does_not_recreate_it(
    server: GadgetServer, run: Start, status: bool
):
    server.edit_definition(spec={"versions": versions(status=status)})
    path = gadget_path("g0004", subresource="/status" if status else "")
    server.before = lambda sent: server.remove("g0004") if sent.path == path else None
    migration = run()
    assert await migration() is Outcome.DONE
    assert migration.migration.tally.gone == 1
    assert server.stored_versions == [NEW]
    assert "g0004" not in server.names()


@pytest.mark.parametrize(
    "answer",
    [
        Reply(404, body=b"404 page not found"),
        Reply.status(404, "NotFound", "the server could not find the requested resource"),
        Reply.status(409, "Conflict", "admission webhook says no"),
    ],
    ids=["plain", "path", "webhook"],
)
async def test_migration_counts_unchanged_object_as_refused_for_any_failed_answer(
    server: GadgetServer, run: Start, answer: Reply
):
    server.before = lambda sent: answer if sent.path == gadget_path("g0004") else None
    migration = run()
    assert await migration() is Outcome.REFUSED
    tally = migration.migration.tally
    assert (tally.rewritten, tally.gone, tally.refused) == (9, 0, 1)
    assert server.stored_versions == ["v1alpha1", "v1beta1"]


async def test_migration_counts_conflicting_object_written_by_others_as_rewritten(
    server: GadgetServer, run: Start
):
    def write(sent: Sent) -> Step | None:
        if sent.path != gadget_path("g0004"):
            return None
        server.store("g0004", NEW)
        return Reply.status(409, "Conflict", "the object has been modified")

    server.before = write
    migration = run()
    assert await migration() is Outcome.DONE
    assert migration.migration.tally.rewritten == 10


async def test_migration_patches_object_when_kind_has_no_status_subresource(server: GadgetServer, run: Start):
    server.edit_definition(spec={"versions": versions(status=False)})
    await run()()
    assert {each.path for each in server.wire.sent("PATCH", "/apis/test.example.com/*")} == {
        gadget_path(name, subresource="") for name in server.names()
    }
    assert server.in_version("v1beta1") == 10


async def test_migration_uses_a_served_version_when_storage_version_is_not_served(
    server: GadgetServer, run: Start
):
    server.edit_definition(spec={"versions": versions(served=(OLD,))})
    assert await run()() is Outcome.DONE
    assert server.in_version("v1beta1") == 10
    assert server.wire.sent("GET", GADGETS) == []


async def test_migration_fails_when_no_version_is_served(server: GadgetServer, run: Start):
    server.edit_definition(spec={"versions": versions(served=())})
    with pytest.raises(MigrationFailed, match="no version is served"):
        await run()()
    assert server.stored_versions == ["v1alpha1", "v1beta1"]


async def test_migration_respects_concurrency_and_rate_limits(server: GadgetServer, run: Start):
    most = 0

    async def slow(sent: Sent) -> Step:
        nonlocal most
        most = max(most, server.wire.in_progress)
        await asyncio.sleep(0.3)
        return await server.answer(sent)

    def count(sent: Sent) -> Step | None:
        return slow if sent.method == "PATCH" and sent.path.startswith("/apis/test") else None

    server.before = count
    await run(concurrency=3, page_size=100, rate=5, settle=0)()
    assert most == 3
    sent = [each.at for each in server.wire.sent("PATCH", "/apis/test.example.com/*")]
    # Three at once, as a burst; from then on five a second.
    assert sent[-1] - sent[0] >= (10 - 3) / 5


# Refusals.


async def test_migration_reports_refused_object_and_the_next_one_starts_at_its_page(
    server: GadgetServer, run: Start
):
    reason = 'Gadget.test.example.com "g0004" is invalid: spec.size: Invalid value: 3:\n too large'
    server.before = at(gadget_path("g0004"), Reply.status(422, "Invalid", reason))
    migration = run()
    assert await migration() is Outcome.REFUSED
    assert migration.heard.of("refused") == [("default/g0004", reason.replace("\n", ""))]
    assert server.stored_versions == ["v1alpha1", "v1beta1"]
    assert server.in_version("v1beta1") == 9  # all others
    before = len(server.patches())
    assert await run()() is Outcome.DONE
    assert server.patches()[before] == "g0003"  # where the page of the refused object begins
    assert server.stored_versions == ["v1beta1"]


async def test_migration_refuses_object_after_four_server_errors(server: GadgetServer, run: Start):
    failure = Reply.status(500, "InternalError", "failed calling webhook: no answer")
    server.before = at(gadget_path("g0004"), *[failure] * 99)
    migration = run()
    assert await migration() is Outcome.REFUSED
    assert server.patches().count("g0004") == 4
    assert migration.heard.of("refused") == [("default/g0004", "failed calling webhook: no answer")]


async def test_migration_gives_up_when_the_server_fails_for_every_object(server: GadgetServer, run: Start):
    server.fill(1000)
    failure = Reply.status(500, "InternalError", "conversion webhook failed")
    server.before = lambda sent: failure if sent.path.endswith("/status") else None
    with pytest.raises(MigrationFailed, match="conversion webhook failed"):
        await run()()
    assert len(set(server.patches())) < 30
    assert server.stored_versions == ["v1alpha1", "v1beta1"]


# A server that is not there, or not now.


@pytest.mark.parametrize(
    "trouble",
    [
        Unreached(),
        LostAfter(),
        Reply.status(429, "TooManyRequests"),
        Reply.status(503, "ServiceUnavailable"),
        Reply.status(504, "Timeout"),
        Reply.status(500, "InternalError"),
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
async def test_migration_retries_transient_failures(
    server: GadgetServer, run: Start, trouble: Step, method: str, path: str
):
    server.before = at(path, trouble, trouble, method=method)
    assert await run()() is Outcome.DONE
    assert server.in_version("v1beta1") == 10
    assert server.stored_versions == ["v1beta1"]


async def test_migration_ends_when_server_stays_away_and_next_run_resumes(server: GadgetServer, run: Start):
    gone = False

    def leave(sent: Sent) -> Step | None:
        nonlocal gone
        if sent.path == gadget_path("g0007"):
            gone = True
        return Unreached() if gone and not sent.path.startswith(DEFINITION) else None

    server.before = leave
    migration = run()
    with pytest.raises(Unreachable):
        await migration()
    assert migration.heard.of("waiting")
    server.before = lambda sent: None
    before = len(server.patches())
    again = run()
    assert await again() is Outcome.DONE
    assert again.heard.of("begins") == [(6,)]
    assert min(server.patches()[before:]) == "g0006"


async def test_migration_ends_at_once_when_credentials_are_refused(server: GadgetServer, run: Start):
    server.before = at(gadget_path("g0007"), Reply.status(401, "Unauthorized"))
    migration = run()
    with pytest.raises(Unauthorized):
        await migration()
    assert migration.heard.of("refused") == []


# Rights.


@pytest.mark.parametrize(
    ("verb", "resource", "subresource", "told"),
    [
        ("list", "gadgets", "", "list gadgets.test.example.com"),
        ("patch", "gadgets", "status", "patch gadgets/status.test.example.com"),
        ("patch", "customresourcedefinitions", "", "patch customresourcedefinitions.apiextensions.k8s.io"),
        ("patch", "customresourcedefinitions", "status", "patch customresourcedefinitions/status."),
    ],
)
async def test_migration_names_missing_right_before_writing(
    server: GadgetServer, run: Start, verb: str, resource: str, subresource: str, told: str
):
    server.denied.add((verb, resource, subresource))
    with pytest.raises(MigrationFailed, match=told):
        await run()()
    assert server.wire.sent("PATCH") == []


async def test_migration_runs_when_access_reviews_are_forbidden(server: GadgetServer, run: Start):
    server.before = at(REVIEWS, Reply.status(403, "Forbidden"), method="POST")
    assert await run()() is Outcome.DONE


# Trying it.


async def test_migration_dry_run_reports_refusals_and_writes_nothing(server: GadgetServer, run: Start):
    before = server.cluster.store.version
    server.denied.add(("patch", "customresourcedefinitions", "status"))
    server.before = at(gadget_path("g0004"), Reply.status(422, "Invalid", "too large"))
    migration = run(dry_run=True)
    assert await migration() is Outcome.REFUSED
    assert migration.heard.of("refused") == [("default/g0004", "too large")]
    assert await run(dry_run=True)() is Outcome.DONE
    assert server.in_version("v1alpha1") == 10
    assert server.cluster.store.version == before
    assert {each.query["dryRun"] for each in server.wire.sent("PATCH")} == {"All"}
