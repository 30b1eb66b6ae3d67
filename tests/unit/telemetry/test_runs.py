"""The history of reconciles: what a record contains, and how long records are kept."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.api import ObjectKey
from manager.telemetry import runs
from manager.telemetry.runs import History, ReconcileRecord, Trigger
from manager_kinds.apps_v1 import Deployment

WEB = ObjectKey("default", "web")
CHANGED = Trigger("event", 1.0, "MODIFIED", "for", "Memcached", *WEB, 41, 42)
GONE = Trigger("event", 1.0, "DELETED", "for", "Memcached", *WEB, 42, 0)
CHILD_GONE = Trigger("event", 1.0, "DELETED", "owns", "Pod", *WEB, 1, 0)
_numbers = count()


def run_of(
    key: ObjectKey = WEB,
    *,
    controller: str = "memcached",
    at: float = 0.0,
    triggers: tuple[Trigger, ...] = (CHANGED,),
    error: str = "",
    gone: bool | None = False,
) -> ReconcileRecord:
    """Return the record of a finished reconcile, with a unique id."""
    run = ReconcileRecord(controller, *key, f"{next(_numbers):016x}", at, 0.0, 0, 0, triggers, len(triggers))
    run.outcome, run.error, run.gone = "success", error, gone
    return run


@contextmanager
def traced_memory() -> Iterator[list[int]]:
    """Yield a list; the end of the block appends the bytes that the block has allocated but not freed."""
    taken: list[int] = []
    gc.collect()
    tracemalloc.start()
    yield taken
    gc.collect()
    taken.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()


@contextmanager
def entered(run: ReconcileRecord) -> Iterator[ReconcileRecord]:
    run.outcome = ""
    token = runs.enter_record(run)
    yield run
    runs.leave_record(token)


CONTROLLERS, NAMES = ("pet", "foo", "memcached"), "abcd"
ADDED = st.tuples(
    st.sampled_from(CONTROLLERS),
    st.sampled_from(NAMES),
    st.integers(0, 300),
    st.booleans(),
    st.sampled_from((0.0, 1.0, runs.GONE_KEPT)),
)


@given(added=st.lists(ADDED, max_size=150), budget=st.integers(500, 20_000))
def test_history_keeps_the_latest_records_within_its_memory_budget(
    added: list[tuple[str, str, int, bool, float]], budget: int
):
    history, now = History(budget), 0.0
    ids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    order: defaultdict[str, list[str]] = defaultdict(list)
    for controller, name, size, gone, pause in added:
        now += pause
        run = run_of(ObjectKey("ns", name), controller=controller, at=now, error="x" * size, gone=gone)
        history.of(controller).add(run)
        ids[controller, name].append(run.id)
        order[controller].append(run.id)
        assert history.bytes <= budget
        assert history.bytes == sum(history.of(each).bytes for each in CONTROLLERS) >= 0
        for each in CONTROLLERS:
            records, living = history.of(each), set[str]()
            for key in NAMES:
                kept = [run.id for run in records.of(ObjectKey("ns", key))]
                assert len(kept) <= runs.KEPT_OF_AN_OBJECT
                assert kept == (ids[each, key][-len(kept) :] if kept else [])
                living.update(kept)
            assert [run.id for run in records.latest()] == [one for one in order[each][::-1] if one in living]
            assert len(records) == len(living)
            assert (records.bytes == 0) is (not living)


def test_history_keeps_records_of_quiet_objects_while_other_objects_reconcile_often():
    history, quiet = History(20_000), ObjectKey("ns", "quiet")
    records = history.of("foo")
    for kept in (records, history.of("pet")):
        kept.add(run_of(quiet))
    for _ in range(10_000):
        records.add(run_of())
    assert len(records) == runs.KEPT_OF_AN_OBJECT + 1
    assert len(records._order) < 200
    for number in range(1000):
        records.add(run_of(ObjectKey("ns", f"{number}")))
    assert len(history.of("pet").of(quiet)) == 1
    latest = [run.name for run in records.latest()]
    assert latest == [f"{number}" for number in range(999, 999 - len(latest), -1)]


@pytest.mark.whole
async def test_history_of_ten_thousand_objects_stays_within_its_memory_budget():
    history = History()
    keys = [ObjectKey("default", f"memcached-{number}") for number in range(10_000)]
    with traced_memory() as taken:
        for _ in range(5):
            for key in keys:
                run = run_of(key)
                run.add_spared("apply", Deployment, key)
                history.of("memcached").add(run)
        del run
    assert taken[0] <= history.bytes * 1.02 <= runs.BUDGET * 1.02
    assert history.bytes > runs.BUDGET * 0.99
    assert len(history.of("memcached")) > 1.4 * len(keys)


def test_history_counts_the_memory_of_long_names_of_deleted_objects():
    history, pinned = History(runs.BUDGET // 8), ObjectKey("default", "a")
    records = history.of("pet")
    with traced_memory() as taken:
        records.add(run_of(pinned, gone=True))
        for number in range(6_000):
            records.add(run_of(ObjectKey("default", f"{number:0253}"), at=number / 10, gone=True))
            if number % 100 == 0:  # an object that exists again keeps its records
                records.add(run_of(pinned, at=number / 10))
    assert history.bytes > runs.BUDGET * 0.12
    assert taken[0] <= history.bytes * 1.05


def test_history_memory_is_limited_when_an_object_is_recreated_repeatedly():
    history = History()
    with traced_memory() as taken:
        for number in range(2_000):
            history.of("pet").add(run_of(at=number / 10, gone=number % 2 == 0))
    assert taken[0] < 50_000


def test_history_keeps_records_of_a_deleted_object_for_an_hour():
    records = History().of("foo")
    records.add(run_of(at=10.0, gone=True))
    again = ObjectKey("default", "again")
    records.add(run_of(again, at=10.0, gone=True))
    records.add(run_of(again, at=20.0))  # a new object with the same name
    records.add(run_of(ObjectKey("ns", "other"), at=runs.GONE_KEPT + 9))
    assert len(records.of(WEB)) == 1
    records.add(run_of(ObjectKey("ns", "other"), at=runs.GONE_KEPT + 10))
    assert records.of(WEB) == []
    assert len(records.of(again)) == 2
    assert len(records) == 4


def test_history_drops_records_of_a_deleted_object_when_later_reconciles_have_no_event_of_the_object():
    records = History().of("foo")
    records.add(run_of(at=10.0, gone=True))
    records.add(run_of(at=11.0, gone=None))  # its child is deleted, or `gone` is called again
    records.add(run_of(ObjectKey("ns", "other"), at=runs.GONE_KEPT + 9))
    assert len(records.of(WEB)) == 2
    records.add(run_of(ObjectKey("ns", "other"), at=runs.GONE_KEPT + 20))
    assert records.of(WEB) == []


@pytest.mark.parametrize(
    ("triggers", "gone"),
    [
        ((CHANGED, GONE), True),
        ((GONE, CHANGED), False),  # the object exists again
        ((Trigger("found", source="for", kind="Memcached"),), False),
        ((GONE, CHILD_GONE, Trigger("back-off")), True),
        ((CHILD_GONE,), None),
        ((Trigger("back-off"), Trigger("resync")), None),
        ((), None),
    ],
)
def test_reconcile_record_shows_whether_the_last_event_of_the_object_is_its_deletion(
    triggers: tuple[Trigger, ...], gone: bool | None
):
    assert run_of(triggers=triggers).shows_gone("Memcached") is gone


async def test_reconcile_record_keeps_the_first_requests_and_events_and_counts_all():
    with entered(run_of()) as run:
        for number in range(1000):
            run.begin_request("get", f"/api/v1/pods/{number}", "")
            run.add_spared("apply", Deployment, WEB)
            run.add_event("Normal", "Reason", "message " * 1000)
            runs.called("store/Add", 0.1, "Unavailable")
    runs.called("store/Add", 0.1)
    run.outcome = "success"
    records = History().of("foo")
    records.add(run)
    [kept] = records.of(WEB)
    assert kept == run
    assert (kept.requested, kept.spared, kept.called, kept.recorded) == (1000, 1000, 1000, 1000)
    assert (len(kept.requests), len(kept.events)) == (runs.MOST_REQUESTS, runs.MOST_EVENTS)
    assert records.bytes < 12_000
    spared = kept.requests[1]
    assert (spared.path, spared.code) == ("/apis/apps/v1/namespaces/default/deployments/web", runs.SPARED)
    call = kept.requests[2]
    assert (call.verb, call.path, call.code, call.error) == ("call", "store/Add", runs.CALLED, "Unavailable")


def test_reconcile_record_reason_text_names_its_first_triggers():
    triggers = [
        Trigger("event", kind=f"Kind{number % 5}", change="ADDED") for number in range(runs.MOST_TRIGGERS)
    ]
    assert run_of(triggers=tuple(triggers)).why == "Kind0 added, Kind1 added, Kind2 added, ..."
    assert run_of(triggers=()).why == ""
    assert Trigger("probe", name="the API server").text == "a test of the API server"
    assert Trigger("back-off").text == "retry after the back-off"


@pytest.mark.virtual_time
async def test_reconcile_record_converts_event_loop_times_to_unix_times():
    record = run_of(at=5.0, triggers=(CHANGED, Trigger("resync")))
    record.outcome = ""
    record.begin_request("get", "/api/v1/pods", "")
    record.add_event("Normal", "Created", "a pod")
    now = asyncio.get_running_loop().time()
    shown = record.in_unix_time(1000.0)
    assert (shown.started, shown.seconds) == (1005.0, now - 5.0)
    assert [each.at for each in shown.triggers] == [CHANGED.at + 1000, 0.0]
    assert [each.at for each in (*shown.requests, *shown.events)] == [now + 1000, now + 1000]


async def test_current_reconcile_record_is_visible_in_child_tasks_until_the_reconcile_ends():
    found: list[ReconcileRecord | None] = []

    async def look() -> None:
        found.append(runs.current_record())

    assert runs.current_record() is None
    with entered(run_of()) as run:
        assert runs.current_record() is run
        await asyncio.create_task(look())
        left_behind = asyncio.create_task(look())
        run.outcome = "success"
        assert runs.current_record() is None
    await left_behind
    assert found == [run, None]


@pytest.mark.parametrize(
    ("path", "of"),
    [
        ("/apis/apps/v1/namespaces/blue/deployments", ("deployments", "")),
        ("/apis/apps/v1/namespaces/blue/deployments/web", ("deployments", "web")),
        ("/apis/cache.example.com/v1/namespaces/blue/memcacheds/web/status", ("memcacheds/status", "web")),
        ("/api/v1/namespaces/blue", ("namespaces", "blue")),
        ("/api/v1/namespaces", ("namespaces", "")),
        ("/api/v1/namespaces/blue/secrets/root", ("secrets", "root")),
        ("/api", ("", "")),
    ],
)
def test_api_path_is_split_into_resource_and_object_name(path: str, of: tuple[str, str]):
    assert runs.resource_and_name(path) == of
