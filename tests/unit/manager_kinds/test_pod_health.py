"""Health of pods, read from statuses as a kubelet 1.33 with containerd writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manager.cache.record import Parts
from manager_kinds.pod_health import (
    PARTS_OF_HEALTH,
    PodHealth,
    Problem,
    one_line,
    problem_of_pods,
    warning_of,
)
from tests.unit.manager_kinds.pods import cached, container, pod, terminated

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
MEMORY = "Cannot set item size limit higher than 1/2 of memory max."
NO_MEMORY = ("OOMKilled", "container memcached ended for lack of memory with exit code 137")
BACK_OFF = {
    "waiting": {
        "reason": "CrashLoopBackOff",
        "message": "back-off 20s restarting failed container=memcached pod=web-1_default(1b2f)",
    }
}


def at(seconds: float) -> str:
    """Return the time `seconds` after NOW in the API's text format."""
    return at_second(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def at_second(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def judged(found: dict[str, Any], now: datetime = NOW) -> PodHealth:
    """Return the health of the pod; assert that the cached projection of the pod has the same health."""
    health = PodHealth.of(found, now)
    assert PodHealth.of(cached(Parts(PARTS_OF_HEALTH), found), now) == health
    return health


def problem(found: dict[str, Any], now: datetime = NOW) -> tuple[str, str] | None:
    return judged(found, now).problem


ENDED = terminated(71, "Error", f"slab class 1\n{MEMORY}\n", since=at(-31), until=at(-30))
PULL = 'failed to pull and unpack image "docker.io/library/memcached:nope": not found'


@pytest.mark.parametrize(
    "state",
    [
        BACK_OFF,
        {"running": {"startedAt": at(-1)}},
        ENDED,
        {"waiting": {"reason": "ContainerCreating"}},
        {"waiting": {"reason": "RunContainerError", "message": "failed to start containerd task"}},
    ],
    ids=["waiting", "running", "terminated", "creating", "failing to start"],
)
def test_crash_loop_has_the_same_message_in_each_container_state(state: dict[str, Any]):
    found = pod(container(state, lastState=ENDED, restartCount=4))
    assert problem(found) == ("CrashLoopBackOff", f"container memcached ended with exit code 71: {MEMORY}")


def test_first_crash_of_a_container_is_a_problem_until_the_container_is_ready():
    crashed = pod(container(ENDED, restartCount=0))
    assert problem(crashed) == ("CrashLoopBackOff", f"container memcached ended with exit code 71: {MEMORY}")
    again = {"lastState": ENDED, "restartCount": 1}
    assert problem(pod(container({"running": {"startedAt": at(-5)}}, ready=False, **again))) is not None
    assert problem(pod(container({"running": {"startedAt": at(-5)}}, ready=True, **again))) is None


def test_ready_container_after_repeated_crashes_is_a_problem_for_a_minute():
    found = pod(container({"running": {"startedAt": at(-5)}}, ready=True, lastState=ENDED, restartCount=7))
    health = judged(found)
    assert health.is_ready
    assert health.problem is not None
    assert health.look_again_at == at_second(55)
    assert problem(found, at_second(55)) is None


def test_crash_is_no_problem_when_the_container_restarted_long_ago():
    def running(since: float) -> dict[str, Any]:
        state = {"running": {"startedAt": at(since)}}
        return pod(container(state, ready=False, lastState=ENDED, restartCount=9))

    assert problem(running(-604800)) is None  # it crashed before its restart a week ago; today a probe fails
    assert judged(running(3600)).look_again_at == at_second(60)  # the node's clock is ahead


CRASH = "CrashLoopBackOff"


@pytest.mark.parametrize(
    ("state", "last", "restarts", "expected"),
    [
        (BACK_OFF, terminated(137, "OOMKilled"), 1, NO_MEMORY),
        (terminated(137, "OOMKilled"), terminated(137, "OOMKilled"), 1, NO_MEMORY),
        (BACK_OFF, terminated(0, "Completed"), 3, (CRASH, "container memcached ended with exit code 0")),
        (terminated(0, "Completed"), {}, 0, None),
    ],
    ids=["out of memory", "just out of memory", "ends again and again", "ends once"],
)
def test_terminated_container_is_a_problem_unless_it_completed_and_never_restarted(
    state: dict[str, Any], last: dict[str, Any], restarts: int, expected: tuple[str, str] | None
):
    assert problem(pod(container(state, lastState=last, restartCount=restarts))) == expected


@pytest.mark.parametrize(
    ("reason", "message", "shown"),
    [
        ("ErrImagePull", PULL, ("ImagePullBackOff", PULL)),
        ("ImagePullBackOff", f'Back-off pulling image "a": ErrImagePull: {PULL}', ("ImagePullBackOff", PULL)),
        ("CreateContainerConfigError", 'secret "blog-mysql" not found', None),
        ("ErrImageNeverPull", 'Container image "x" is not present with pull policy of Never', None),
    ],
)
def test_waiting_container_problem_has_the_reason_and_message_of_the_start_error(
    reason: str, message: str, shown: tuple[str, str] | None
):
    found = pod(container({"waiting": {"reason": reason, "message": message}}), phase="Pending")
    why, text = shown or (reason, message)
    assert problem(found) == (why, f"container memcached: {text}")


def test_failed_init_container_is_a_problem_but_a_completed_init_container_is_not():
    waits = container({"waiting": {"reason": "PodInitializing"}})
    failing = container(BACK_OFF, name="copy", lastState=terminated(2, "Error", "no such file"))
    found = pod(waits, phase="Pending", initContainerStatuses=[failing])
    assert problem(found) == ("CrashLoopBackOff", "container copy ended with exit code 2: no such file")
    done = {**failing, "state": terminated(0, "Completed"), "restartCount": 1}
    assert problem(pod(waits, phase="Pending", initContainerStatuses=[done])) is None


NO_ROOM = "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available."


def unscheduled(since: float, reason: str = "Unschedulable") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": NO_ROOM}
    return pod(phase="Pending", conditions=[{**condition, "lastTransitionTime": at(since)}])


def test_unschedulable_pod_is_a_problem_after_ten_seconds():
    assert judged(unscheduled(-9)).problem is None
    assert judged(unscheduled(-9)).look_again_at == at_second(1)
    assert problem(unscheduled(-10)) == ("Unschedulable", NO_ROOM)
    assert PodHealth.of(unscheduled(-1), NOW, grace=timedelta(0)).problem == ("Unschedulable", NO_ROOM)


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_starting_pod_has_no_problem_but_counts_as_stuck_after_ten_seconds(reason: str):
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(-9)}
    found = pod(container({"waiting": {"reason": reason}}), phase="Pending", conditions=[scheduled])
    health = judged(found)
    assert (health.problem, health.is_stuck, health.look_again_at) == (None, False, at_second(1))
    assert judged(found, at_second(1)).is_stuck


def test_pod_without_a_scheduling_condition_is_checked_again_after_ten_seconds():
    health = judged(pod(phase="Pending", conditions=[]))
    assert (health.problem, health.is_stuck) == (None, False)
    assert health.look_again_at == at_second(10)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("Evicted", "Evicted"), ("OutOfnvidia.com/gpu", "OutOfnvidiacomgpu"), ("../..", "Failed")],
)
def test_failed_pod_problem_has_the_reason_of_the_pod_status_and_no_exit_code(reason: str, shown: str):
    ended = container(terminated(137, "ContainerStatusUnknown", "The container could not be located"))
    health = judged(pod(ended, phase="Failed", reason=reason, message="The node was low on resource: disk. "))
    assert health.problem == (shown, "The node was low on resource: disk.")
    assert not health.is_active


def test_terminating_or_completed_pod_is_inactive_and_no_problem():
    going = pod(container(terminated(137, "Error")), metadata={"deletionTimestamp": at(0)})
    done = pod(container(terminated(0, "Completed")), phase="Succeeded")
    for found in (going, done):
        health = judged(found)
        assert (health.is_active, health.problem) == (False, None)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("first\nlast\n\n", "last"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07text", "red text"),
        ("a\x00b\x07\u202ec\u2028", "a b c"),
        ("x" * 300, "x" * 250 + "…"),
        (" \r\n\t", ""),
        ("", ""),
    ],
    ids=["last line", "escapes", "control characters", "long", "blank", "empty"],
)
def test_quoted_log_line_is_the_shortened_last_line_without_control_characters(said: str, line: str):
    assert one_line(said) == line


def crashing(name: str) -> PodHealth:
    return judged(pod(container(BACK_OFF, lastState=ENDED, restartCount=4), name=name))


def ready(name: str, since: float = -600) -> PodHealth:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": at(since)}
    running = container({"running": {"startedAt": at(since)}}, ready=True)
    return judged(pod(running, name=name, conditions=[condition]))


def evicted(name: str, since: float) -> PodHealth:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": at(since)}
    return judged(pod(name=name, phase="Failed", reason="Evicted", message="so", conditions=[condition]))


def test_problem_of_pods_names_the_alphabetically_first_pod_with_the_worst_reason():
    pods = [crashing("web-c"), ready("web-a"), crashing("web-b")]
    why = f"2 of 3 pods: web-b: container memcached ended with exit code 71: {MEMORY}"
    wanted = ("CrashLoopBackOff", why)
    assert problem_of_pods(pods, missing=True) == wanted
    assert problem_of_pods(pods[::-1], missing=True) == wanted
    assert problem_of_pods([ready("web-a")], missing=True) is None
    assert problem_of_pods([], missing=True) is None
    waiting = judged(unscheduled(-60))
    _, message = problem_of_pods([waiting, waiting, crashing("web-b")], missing=True) or ("", "")
    assert message.startswith("1 of 3 pods: web-b: ")
    assert message.endswith("; 2 pods: Unschedulable")


def test_problem_of_pods_message_is_limited_when_pod_messages_are_long():
    pods = [judged(pod(phase="Failed", reason=f"R{n}" + "r" * 500, message="x" * 9000)) for n in range(50)]
    found = problem_of_pods(pods, missing=True)
    assert found is not None
    assert len(found.message) < 1000
    assert found.message.endswith("; 46 pods: other reasons")


@pytest.mark.parametrize(
    ("pods", "missing", "told"),
    [
        ([ready("a"), evicted("b", -5)], True, True),
        ([ready("a"), evicted("b", -5)], False, False),
        ([ready("a"), evicted("b", -300), ready("c", -200)], True, False),
        ([evicted("b", -300)], True, True),
    ],
    ids=["replica missing", "enough replicas", "replaced", "only pod"],
)
def test_evicted_pod_is_a_problem_until_a_replacement_pod_is_ready(
    pods: list[PodHealth], missing: bool, told: bool
):
    found = problem_of_pods(pods, missing=missing)
    assert (found is not None and found.reason == "Evicted") is told


def event(reason: str, message: str, *, at: str, kind: str = "Warning") -> dict[str, Any]:
    return {"type": kind, "reason": reason, "message": message, "lastTimestamp": at}


def test_pod_warning_is_the_latest_warning_event_except_scheduling_failures():
    mount = 'MountVolume.SetUp failed for volume "data" : configmap "x" not found'
    events = [
        event("FailedMount", "an earlier one", at=at(-20)),
        event("FailedMount", mount, at=at(-10)),
        event("FailedScheduling", "0/1 nodes are available", at=at(-5)),
        event("Scheduled", "Successfully assigned", at=at(-1), kind="Normal"),
    ]
    assert warning_of(events) == Problem("FailedMount", mount)
    assert warning_of(events[2:]) is None
    assert warning_of(["odd", {}, None]) is None


ODD = [None, True, 7, 1.5, "x", [], [7], {}, {"": []}, [{"type": [], "status": {}, "reason": 7}]]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_pod_health_raises_no_error_for_a_malformed_pod_status(odd: Any):
    states = [
        {"state": odd},
        {"state": {"waiting": odd}},
        {"lastState": {"terminated": odd}, "state": BACK_OFF},
    ]
    statuses = [{"containerStatuses": [{"name": odd, **each}]} for each in states]
    statuses += [
        {"conditions": [{"type": "PodScheduled", "status": "False", name: odd}]}
        for name in ("reason", "lastTransitionTime")
    ]
    statuses += [{"phase": "Failed", name: odd} for name in ("reason", "message", "startTime")]
    for found in ({"status": odd}, {"metadata": odd}, odd, *({"status": each} for each in statuses)):
        health = PodHealth.of(found, NOW)
        assert health.problem is None or all(isinstance(each, str) for each in health.problem)
