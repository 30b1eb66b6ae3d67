"""The next status of one container: started, ready, ended, waiting for its next attempt."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

from devcluster.controllers.client import Object
from devcluster.controllers.container_runtime import KILLED, NotPulled, NotStarted, Outcome
from devcluster.controllers.events import EventRecorder
from devcluster.controllers.images import Exited, Running
from devcluster.controllers.pod_status import container_status, terminated
from devcluster.controllers.probes import ProbeResult, probe

__all__ = ["Attempts", "ContainerStep"]

FIRST_DELAY, LAST_DELAY = 10, 300
"""Seconds between attempts to start a container or to pull an image, initially and at most."""
NOTICED = 1.0
"""Seconds until the kubelet notices a container's end or a failed pull."""
CONFIG_RETRY = 10.0
"""Seconds until the kubelet looks again for the objects that a container refers to."""
PROBE_PERIOD, FAILURE_THRESHOLD = 10, 3
LOG_LINES, LOG_LENGTH = 80, 2048
"""The most of a log that becomes a termination message."""


@dataclasses.dataclass(slots=True)
class Attempts:
    """The attempts to start a container, remembered between its steps; times are the loop's."""

    due: float = 0.0
    """The time of the next attempt, or of the next step towards it."""
    pulls: int = 0
    """The number of failed pulls."""
    ends: float | None = None
    """The time at which the running container ends."""


@dataclasses.dataclass(frozen=True, slots=True)
class ContainerStep:
    """The step of a container from its former status to the present one."""

    pod: Object
    container: Object
    former: Object
    """The container's status so far; empty for none."""
    policy: str
    """When the container is restarted: `Always`, `OnFailure` or `Never`."""
    attempts: Attempts
    now: float
    """The event loop's time; `timestamp` is the same time as text for the status."""
    timestamp: str
    events: EventRecorder
    look_again: Callable[[float], None]
    """Requests the next step after at most so many seconds."""

    def take(self, outcome: Outcome) -> Object:
        """Return the container's present status; `outcome` tells how a start of it goes."""
        match outcome:
            case NotStarted():
                return self._not_started(outcome)
            case NotPulled():
                return self._not_pulled(outcome)
            case Exited():
                return self._exits(outcome)
            case Running():
                return self._runs(outcome)

    def _exits(self, end: Exited) -> Object:
        held = self._held()
        if held is not None:
            return held
        if end.after is None or self._is_over(end.after):
            return self._ended(end)
        return self._running(Running())

    def _runs(self, running: Running) -> Object:
        for kind in ("startupProbe", "livenessProbe"):
            result = self._probe(kind, running)
            if not result.success:
                break
        else:
            return self._running(running)
        held = self._held()
        if held is not None:
            return held
        asked = self.container[kind]
        period = asked.get("periodSeconds") or PROBE_PERIOD
        threshold = asked.get("failureThreshold") or FAILURE_THRESHOLD
        if not self._is_over(asked.get("initialDelaySeconds", 0) + period * threshold):
            return self._running(running)
        name = kind.removesuffix("Probe")
        self._warn("Unhealthy", f"{name.capitalize()} probe failed: {result.output}")
        text = f"Container {self.container['name']} failed {name} probe, will be restarted"
        self._inform("Killing", text)
        return self._ended(Exited(KILLED))

    def _running(self, running: Running) -> Object:
        since = self._state.get("running", {}).get("startedAt", self.timestamp)
        started = self._probe("startupProbe", running).success
        status = {**self._started(), "state": {"running": {"startedAt": since}}, "started": started}
        status["ready"] = started and running.ready and self._is_ready(running)
        return status

    def _is_ready(self, running: Running) -> bool:
        result = self._probe("readinessProbe", running)
        if result.success:
            if result.output and not self.former.get("ready"):
                self._warn("ProbeWarning", f"Readiness probe warning: {result.output}")
            return True
        if self.now >= self.attempts.due:
            period = self.container["readinessProbe"].get("periodSeconds") or PROBE_PERIOD
            self.attempts.due = self.now + period
            self._warn("Unhealthy", f"Readiness probe failed: {result.output}")
        self.look_again(self.attempts.due - self.now)
        return False

    def _probe(self, kind: str, running: Running) -> ProbeResult:
        return probe(self.container, kind, running, self.pod["status"]["podIP"])

    def _is_over(self, seconds: float) -> bool:
        """Return whether the container has run for its time."""
        if "running" not in self._state:
            return False
        if self.attempts.ends is None:
            self.attempts.ends = self.now + seconds
        if self.now < self.attempts.ends:
            self.look_again(self.attempts.ends - self.now)
            return False
        return True

    def _ended(self, end: Exited) -> Object:
        """Return the status of a container that has just ended, perhaps as soon as it was started."""
        since = self._state.get("running", {}).get("startedAt", self.timestamp)
        message = end.message
        if message:
            self._warn("Failed", f"Error: {message}")
        elif end.code and self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            message = "".join(f"{line}\n" for line in end.log[-LOG_LINES:])[-LOG_LENGTH:]
        self.attempts.ends, self.attempts.due = None, self.now + NOTICED
        self.look_again(NOTICED)
        state = terminated(end.code, since, self.timestamp, reason=end.reason, message=message)
        return {**self._started(), "state": state}

    def _held(self) -> Object | None:
        """Return the status of a container that has ended and is not restarted yet; None for any other."""
        ended, restarts = self._state.get("terminated"), self.former.get("restartCount", 0)
        if "running" in self._state or not (ended or self.former.get("lastState")):
            return None
        if ended and (self.policy == "Never" or (self.policy == "OnFailure" and not ended["exitCode"])):
            return self.former
        if self.now < self.attempts.due:
            self.look_again(self.attempts.due - self.now)
            return self.former
        if not ended or not restarts:
            return None  # the first restart follows at once
        delay = _delay(restarts - 1)
        self._wait(delay)
        name, metadata = self.container["name"], self.pod["metadata"]
        where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        self._warn("BackOff", f"Back-off restarting failed container {name} in pod {where}")
        text = f"back-off {_go_seconds(delay)} restarting failed container={name} pod={where}"
        return {**self._waiting("CrashLoopBackOff", text), "lastState": self._state}

    def _not_started(self, outcome: NotStarted) -> Object:
        reason, message = outcome
        if self.now >= self.attempts.due or self._waits_for != reason:
            self._wait(CONFIG_RETRY)
            if reason == "InvalidImageName":
                self._warn("InspectFailed", message)
            self._warn("Failed", f"Error: {reason if reason == 'InvalidImageName' else message}")
        self.look_again(self.attempts.due - self.now)
        return self._waiting(reason, message)

    def _not_pulled(self, outcome: NotPulled) -> Object:
        image = self.container.get("image", "")
        quoted = json.dumps(image, ensure_ascii=False)
        reason = self._waits_for if self.former.get("image") == image else ""
        if reason in {"ErrImagePull", "ImagePullBackOff"} and self.now < self.attempts.due:
            self.look_again(self.attempts.due - self.now)
            return self.former
        if reason == "ErrImagePull":
            self._wait(_delay(self.attempts.pulls))
            self.attempts.pulls += 1
            text = f"Back-off pulling image {quoted}"
            self._inform("BackOff", text)
            reason, message = "ImagePullBackOff", f"{text}: ErrImagePull: {outcome.message}"
        else:
            self._wait(NOTICED)
            self._inform("Pulling", f"Pulling image {quoted}")
            reason, message = "ErrImagePull", outcome.message
            self._warn("Failed", f"Failed to pull image {quoted}: {message}")
        self._warn("Failed", f"Error: {reason}")
        return self._waiting(reason, message)

    @property
    def _state(self) -> Object:
        return self.former.get("state") or {}

    @property
    def _waits_for(self) -> str:
        return str(self._state.get("waiting", {}).get("reason", ""))

    def _started(self) -> Object:
        """Return the status of a container that runs or is started now, without its state."""
        status = container_status(self.container, self.former, {})
        if "running" not in self._state:
            if "terminated" in self._state:
                status["lastState"] = self._state
            status["restartCount"] += bool(status["lastState"])
        return status

    def _waiting(self, reason: str, message: str) -> Object:
        state = {"waiting": {"reason": reason, "message": message}}
        return container_status(self.container, self.former, state)

    def _wait(self, seconds: float) -> None:
        self.attempts.due = self.now + seconds
        self.look_again(seconds)

    def _inform(self, reason: str, message: str) -> None:
        name = self.container["name"]
        self.events.normal(self.pod, reason, message, component="kubelet", container=name)

    def _warn(self, reason: str, message: str) -> None:
        name = self.container["name"]
        self.events.warning(self.pod, reason, message, component="kubelet", container=name)


def _delay(failures: int) -> int:
    return min(FIRST_DELAY << min(failures, 10), LAST_DELAY)


def _go_seconds(seconds: int) -> str:
    """Return seconds as Go writes a duration."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
