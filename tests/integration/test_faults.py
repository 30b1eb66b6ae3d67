"""Whatever happens between the manager and its API server: it converges, and misses nothing."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.integration.scene import (
    DEPLOYMENT_KIND,
    DEPLOYMENTS,
    MEMCACHED_KIND,
    MEMCACHEDS,
    WATCHES,
    Scene,
    on_stage,
)
from tests.support.api_access import ApiFailure
from tests.support.control_plane import Feature
from tests.support.crds import install_crds
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.fault_proxy import Match
from tests.support.memcacheds import memcached_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import StartControlPlane
    from tests.support.control_plane import ControlPlane

NEW_DEPLOYMENTS = Match(method="POST", path="/deployments$")


def status(code: int, reason: str) -> bytes:
    """An error as an API server words it."""
    value = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return json.dumps({**value, "message": f"{reason}, as the test wants it"}).encode()


# Status, Content-Type, body.
ANSWERS: dict[str, tuple[int, str, bytes]] = {
    "internal error": (500, "application/json", status(500, "InternalError")),
    "half an object": (200, "application/json", b'{"kind": "List", "metadata": {"resourceV'),
}


@pytest.fixture(scope="module")
def plane(bare_control_plane: ControlPlane) -> ControlPlane:
    install_crds(bare_control_plane)
    return bare_control_plane


@pytest.fixture
def scene(plane: ControlPlane, tmp_path: Path) -> Iterator[Scene]:
    with on_stage(plane, plane.credentials, tmp_path) as scene:
        yield scene


def prepare(scene: Scene) -> None:
    """What `change` changes."""
    scene.create(gone=1, remade=1, scaled=1, emptied=1)
    scene.settle(gone=1, remade=1, scaled=1, emptied=1)


def change(scene: Scene) -> None:
    """Every kind of change that can be missed."""
    scene.delete("gone")
    scene.delete("remade")
    scene.create(remade=2, added=1)
    scene.scale("scaled", 3)
    scene.delete_deployment("emptied")


def settle(scene: Scene) -> None:
    """All that `change` did has been taken up, and nothing is left of what went."""
    scene.settle(remade=2, scaled=3, emptied=1, added=1)
    scene.create(gone=2)
    scene.scale("remade", 0)
    scene.settle(gone=2, remade=0, scaled=3, emptied=1, added=1)


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_nothing_is_missed_while_every_answer_is_wrong(scene: Scene, answer: tuple[int, str, bytes]) -> None:
    code, content_type, body = answer
    prepare(scene)
    with scene.bounded(objects=5):
        scene.proxy.answer(code, headers={"Content-Type": content_type}, body=body, times=None)
        scene.proxy.end_watches()
        before = scene.proxy.count()
        change(scene)
        # Each watch has tried, and tried again.
        eventually(lambda: scene.proxy.count() >= before + 8)
    scene.proxy.heal()
    settle(scene)


def test_nothing_is_missed_while_the_server_cannot_be_reached(scene: Scene) -> None:
    prepare(scene)
    scene.create(late=1)
    with scene.bounded(objects=6):
        scene.proxy.refuse()
        change(scene)
        scene.wait_failed(8)
        # Nobody is told of a watch that breaks once, but of one that cannot be opened again.
        eventually(lambda: MEMCACHED_KIND in scene.manager.probe("/readyz/informers")[1])
        assert not scene.manager.is_ready()
        assert scene.manager.probe("/healthz")[0] == 200
    scene.proxy.accept()
    scene.delete("late")
    settle(scene)


def test_nothing_is_missed_while_the_server_says_nothing(scene: Scene) -> None:
    prepare(scene)
    scene.proxy.black_hole()
    change(scene)
    # New connections are taken, and left without an answer.
    scene.proxy.cut()
    eventually(lambda: scene.proxy.exchanges(WATCHES)[-1].status is None)
    scene.proxy.heal()
    settle(scene)


def test_nothing_is_missed_when_every_connection_is_cut_again_and_again(scene: Scene) -> None:
    names = [f"m{number}" for number in range(20)]
    started, before = time.monotonic(), scene.proxy.count(WATCHES)
    sizes: dict[str, int] = {}
    for turn in range(5):
        for position, name in enumerate(names):
            if position % 5 == turn and name in sizes:
                scene.delete(name)
                del sizes[name]
            elif name in sizes:
                scene.scale(name, turn)
                sizes[name] = turn
            else:
                scene.create(**{name: turn})
                sizes[name] = turn
            if position % 4 == 0:
                scene.proxy.cut()
    # A watch is opened once a second at most, and four kinds are watched.
    opened, seconds = scene.proxy.count(WATCHES) - before, time.monotonic() - started
    assert opened <= 4 * (2 + seconds)
    scene.settle(**sizes)


def test_the_server_is_killed_in_the_middle_of_work(scene: Scene) -> None:
    scene.plane.require(Feature.PROCESSES)
    sizes = {f"m{number}": 1 for number in range(40)}
    # So that there is a middle.
    scene.proxy.delay(1.0, match=NEW_DEPLOYMENTS, times=None)
    scene.create(**sizes)
    eventually(lambda: len(scene.deployments()) >= 8, every=0.01)
    scene.plane.kill("apiserver")
    with scene.bounded(objects=40):
        scene.wait_failed(60)
        scene.plane.restart("apiserver")
    scene.proxy.heal()
    scene.settle(**sizes)
    # Each was created once, and none was refused because it was there already.
    created = [each for each in scene.proxy.exchanges(NEW_DEPLOYMENTS) if each.status in {201, 409}]
    assert len(created) <= len(sizes) + 8


@pytest.mark.parametrize("code", [403, 500])
def test_writes_alone_that_fail_are_told_in_a_few_lines_and_made_up_for_when_they_succeed(
    scene: Scene, code: int
) -> None:
    names = [f"m{number}" for number in range(20)]
    scene.create(**dict.fromkeys(names, 1))
    scene.settle(**dict.fromkeys(names, 1))
    body = status(code, {403: "Forbidden", 500: "InternalError"}[code])
    headers = {"Content-Type": "application/json"}
    for method in ("POST", "PATCH"):
        scene.proxy.answer(code, headers=headers, body=body, match=Match(method=method), times=None)
    # Each change asks for another attempt: ten for each object.
    for size in range(2, 12):
        for name in names:
            scene.scale(name, size)
    scene.create(late=1)
    scene.wait_failed(len(names))
    scene.proxy.heal()
    # With a back-off that grows by each change, the last would come minutes later.
    scene.settle(late=1, **dict.fromkeys(names, 11))
    told = [line for line in scene.manager.logs(level="error") if line["controller"] == "memcached"]
    assert 1 <= len(told) <= 8, told
    assert scene.manager.metrics().value("controller_runtime_reconcile_errors_total") >= len(names)
    assert scene.manager.metrics().value("operator_manager_failing_objects") == 0


@pytest.mark.contract
def test_a_server_that_was_restarted_and_remembers_no_history(scene: Scene) -> None:
    scene.plane.require(Feature.PROCESSES)
    prepare(scene)
    scene.proxy.refuse()
    change(scene)
    scene.plane.kill("apiserver")
    scene.plane.restart("apiserver")
    scene.proxy.accept()
    settle(scene)


@pytest.mark.contract
def test_history_that_was_compacted_away(own_control_plane: StartControlPlane, tmp_path: Path) -> None:
    plane = own_control_plane(
        parts=BARE, apiserver_flags=["--etcd-compaction-interval=2s", "--watch-cache=false"]
    ).require(Feature.SERVER_FLAGS)
    install_crds(plane)
    with on_stage(plane, plane.credentials, tmp_path) as scene:
        prepare(scene)
        seen = plane.api.get(memcached_path(scene.namespace))["metadata"]["resourceVersion"]
        scene.proxy.refuse()
        change(scene)
        numbers = itertools.count()

        def history_is_gone() -> bool:
            # Only what is written makes versions, and only versions are compacted.
            scene.say(f"number {next(numbers)}")
            return has_expired(plane, memcached_path(scene.namespace), seen)

        eventually(history_is_gone, every=0.5)
        scene.proxy.accept()
        settle(scene)
        for kind in (MEMCACHED_KIND, DEPLOYMENT_KIND, "configmaps"):
            assert scene.restarts(kind, "expired") >= 1, kind


def has_expired(plane: ControlPlane, path: str, version: str) -> bool:
    """Whether a watch can no longer begin at that version."""
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
    try:
        text = plane.api.request("GET", path, query=query)
    except ApiFailure as failure:
        return failure.status == 410
    first = json.loads(text.splitlines()[0]) if text.strip() else {}
    return bool(first.get("type") == "ERROR" and first["object"]["code"] == 410)


def test_a_watch_that_goes_silent_is_replaced(plane: ControlPlane, tmp_path: Path) -> None:
    # Bookmarks come once a minute, so in truth it is silent for a minute and a half before that is noticed.
    with on_stage(plane, plane.credentials, tmp_path, watch_silence=5.0) as scene:
        prepare(scene)
        for kind in (MEMCACHEDS, DEPLOYMENTS):
            eventually(lambda kind=kind: scene.proxy.stall_watches(kind) == 1)
        change(scene)
        scene.assert_bystander_works("the others go on")
        settle(scene)
        for kind in (MEMCACHED_KIND, DEPLOYMENT_KIND):
            assert scene.restarts(kind, "silent") >= 1


def test_a_throttled_write_comes_when_it_was_asked_to(scene: Scene) -> None:
    body, headers = status(429, "TooManyRequests"), {"Retry-After": "1", "Content-Type": "application/json"}
    scene.proxy.answer(429, headers=headers, body=body, match=NEW_DEPLOYMENTS, times=3)
    scene.create(throttled=1)
    scene.settle(throttled=1)
    tries = [exchange.at for exchange in scene.proxy.exchanges(NEW_DEPLOYMENTS)]
    assert len(tries) == 4
    assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(tries))


def test_writes_whose_answers_are_lost_have_their_effect_once(scene: Scene) -> None:
    sizes = {f"m{number}": 1 for number in range(5)}
    for method in ("POST", "PATCH"):
        scene.proxy.lose_answers(match=Match(method=method), times=8)
    scene.create(**sizes)
    scene.settle(**sizes)
    uids = {name: each["metadata"]["uid"] for name, each in scene.deployments().items()}
    scene.proxy.lose_answers(match=Match(method="PATCH"), times=8)
    for name in sizes:
        scene.scale(name, 2)
    scene.settle(**dict.fromkeys(sizes, 2))
    assert uids == {name: each["metadata"]["uid"] for name, each in scene.deployments().items()}
    # So it is with the Events, as far as they were sent.
    scene.proxy.heal()
    scene.create(last=1)

    def told() -> list[tuple[str, str]]:
        events = scene.plane.api.get(f"/api/v1/namespaces/{scene.namespace}/events")["items"]
        return [(event["involvedObject"]["name"], event["reason"]) for event in events]

    eventually(lambda: ("last", "Created") in told())
    assert len(told()) == len(set(told()))


def test_a_lost_answer_is_made_up_for_without_the_watch(scene: Scene) -> None:
    scene.create(seen=1)
    scene.settle(seen=1)
    # The Deployment is there, and neither the answer nor the watch says so.
    scene.proxy.stall_watches(Match(path=DEPLOYMENTS.path, watch=True))
    scene.proxy.lose_answers(match=NEW_DEPLOYMENTS)
    scene.create(unseen=1)
    eventually(lambda: scene.assert_settled(seen=1, unseen=1))


def test_a_kind_in_trouble_does_not_hold_up_the_others(scene: Scene) -> None:
    prepare(scene)
    listing = Match(method="GET", path="/deployments$")
    scene.proxy.answer(500, body=status(500, "InternalError"), match=listing, times=None)
    scene.proxy.end_watches(listing)
    eventually(lambda: "deployments" in scene.manager.probe("/readyz/informers")[1])

    def replicas() -> int:
        return int(scene.deployments()["scaled"]["spec"]["replicas"])

    scene.scale("scaled", 4)
    eventually(lambda: replicas() == 4)
    scene.assert_bystander_works("the others go on")
    scene.scale("scaled", 1)
    scene.proxy.heal()
    change(scene)
    settle(scene)
