"""Simulated kubelet, which starts, restarts and stops containers, and assigns addresses to pods."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import json
from collections import defaultdict
from collections.abc import Mapping

from devcluster.controllers import pod_status
from devcluster.controllers.client import NODES, PODS, Object, is_going, key_of
from devcluster.controllers.container_runtime import (
    ContainerRuntime,
    NotPulled,
    NotStarted,
    Outcome,
    ProbeResult,
    annotation_of,
    is_lost,
    probe,
    seconds_of,
)
from devcluster.controllers.controller import Controller, Environment, Name, Routes
from devcluster.controllers.images import Exited, Image, Running
from devcluster.controllers.nodes import node_address
from devcluster.controllers.pod_status import KILLED, container_status, terminated
from devcluster.errors import StatusError
from devcluster.storage import Change, Key

RESERVED = 2
"""The number of addresses for the network itself and its gateway."""


class PodAddresses:
    """Allocator of pod IPs. It takes addresses in order, so that a released one is not reused soon."""

    def __init__(self) -> None:
        self._given: dict[Key, str] = {}
        self._used: set[str] = set()
        self._next: defaultdict[str, int] = defaultdict(int)

    def take(self, key: Key, network: str) -> str:
        """Return the pod's address from `network`; the first call for a pod allocates it."""
        known = self._given.get(key)
        if known is not None:
            return known
        addresses = ipaddress.ip_network(network)
        room = addresses.num_addresses - RESERVED - 1
        for _ in range(room):
            number = self._next[network] % room
            self._next[network] += 1
            address = str(addresses[RESERVED + number])
            if address not in self._used:
                self.keep(key, address)
                return address
        raise RuntimeError(f"no address left in {network}")

    def keep(self, key: Key, address: str) -> None:
        self._given[key] = address
        self._used.add(address)

    def release(self, key: Key) -> None:
        self._used.discard(self._given.pop(key, ""))


FIRST_DELAY, LAST_DELAY = 10, 300
"""Seconds between attempts to start a container or to pull an image, initially and at most."""
NOTICED = 1.0
"""Seconds until the kubelet notices a container's end or a failed pull."""
CONFIG_RETRY = 10.0
"""Seconds until the kubelet looks again for missing objects to which a container refers."""
PROBE_PERIOD, FAILURE_THRESHOLD = 10, 3
LOG_LINES, LOG_LENGTH = 80, 2048
"""The maximum lines and length of a log that becomes a termination message."""


@dataclasses.dataclass(slots=True)
class Attempts:
    """Attempts to start a container, kept between reconciles; times are from the event loop's clock."""

    due: float = 0.0
    """The time of the next attempt, of the next step towards it, or of the next readiness probe."""
    pulls: int = 0
    """The number of failed pulls of the image, or mounts of a volume."""
    ends: float | None = None
    """The time at which the running container ends."""


@dataclasses.dataclass(frozen=True, slots=True)
class ContainerStep:
    """Computation of a container's next status from its former status and the outcome of its start."""

    kubelet: Kubelet
    pod: Object
    container: Object
    former: Object
    """The container's status so far; empty for a new container."""
    policy: str
    """When the container is restarted: `Always`, `OnFailure` or `Never`."""
    attempts: Attempts
    now: float
    """The event loop's time."""

    @property
    def timestamp(self) -> str:
        """Current time as a metav1.Time."""
        return self.kubelet.clock.timestamp()

    def look_again(self, seconds: float) -> None:
        """Reconcile the pod again after at most this number of seconds."""
        self.kubelet.queue.add_after(key_of(self.pod), seconds)

    def take(self, outcome: Outcome) -> Object:
        """Return the container's new status; `outcome` is the result of starting its program."""
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
        """Return whether a container has run for `seconds`; if it still runs, reconcile again then."""
        if "running" not in self._state:
            return False
        if self.attempts.ends is None:
            self.attempts.ends = self.now + seconds
        if self.now < self.attempts.ends:
            self.look_again(self.attempts.ends - self.now)
            return False
        return True

    def _ended(self, end: Exited) -> Object:
        """Return the status of a container that has just ended."""
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
        """Return the status of an ended container while it must not restart; None if it may start."""
        ended, restarts = self._state.get("terminated"), self.former.get("restartCount", 0)
        if "running" in self._state or not (ended or self.former.get("lastState")):
            return None
        if ended and (self.policy == "Never" or (self.policy == "OnFailure" and not ended["exitCode"])):
            return self.former
        if self.now < self.attempts.due:
            self.look_again(self.attempts.due - self.now)
            return self.former
        if not ended or not restarts:
            return None  # the first restart happens at once
        delay = _delay(restarts - 1)
        self._wait(delay)
        name, metadata = self.container["name"], self.pod["metadata"]
        where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        self._warn("BackOff", f"Back-off restarting failed container {name} in pod {where}")
        minutes, seconds = divmod(delay, 60)
        shown = f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
        text = f"back-off {shown} restarting failed container={name} pod={where}"
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
        """Return the status of a running, starting or just ended container, with an empty `state`."""
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
        self._record("Normal", reason, message)

    def _warn(self, reason: str, message: str) -> None:
        self._record("Warning", reason, message)

    def _record(self, kind: str, reason: str, message: str) -> None:
        component, name = self.kubelet.name, self.container["name"]
        self.kubelet.events.record(self.pod, kind, reason, message, component=component, container=name)


def _delay(failures: int) -> int:
    return min(FIRST_DELAY << min(failures, 10), LAST_DELAY)


MARK = b'"nodeName":'
DEFAULT_NETWORK = "10.244.0.0/16"
MOUNT_RETRY, LAST_MOUNT_RETRY = 0.5, 122.0
"""Seconds between attempts to mount a volume, initially and at most."""
DEADLINE = "Pod was active on the node longer than the specified deadline"
STARVED = {
    "memory": ("100Mi", "94208Ki", "98304Ki"),
    "ephemeral-storage": ("4Gi", "4128768Ki", "65536Ki"),
    "inodes": ("327680", "327601", "4711"),
    "pids": ("3276", "3200", "512"),
}
"""For each resource under pressure: eviction threshold, available amount, and a container's usage."""


@dataclasses.dataclass(slots=True)
class _Run:
    """State that the kubelet keeps for a pod; times are from the event loop's clock."""

    uid: str
    since: float
    containers: dict[str, Attempts] = dataclasses.field(default_factory=dict)
    stops_since: float | None = None


class Kubelet(Controller):
    """Kubelet of all nodes. It starts a pod `ready_delay` seconds after the pod was scheduled.

    The containers of a deleted pod stop after `stop_delay` seconds. Annotations of the pod override both
    delays.
    """

    name = "kubelet"

    def __init__(
        self,
        environment: Environment,
        *,
        ready_delay: float,
        stop_delay: float = 0.0,
        images: Mapping[str, Image] | None = None,
    ) -> None:
        super().__init__(environment)
        self.runtime = ContainerRuntime(self.view, images)
        self._ready_delay = ready_delay
        self._stop_delay = stop_delay
        self._runs: dict[Name, _Run] = {}
        self._addresses = PodAddresses()
        self._lost: set[str] = set()

    def routes(self) -> Routes:
        return {PODS: self._on_pod, NODES: self._on_node}

    async def sync(self, key: Name) -> None:
        pod = self.view.get(PODS, *key)
        if pod is None or pod["spec"].get("nodeName", "") in {"", *self._lost}:
            return
        metadata, status = pod["metadata"], pod.get("status") or {}
        if is_going(pod):
            await self._stop(key, pod)
            return
        if pod_status.has_ended(pod):
            return
        now = asyncio.get_running_loop().time()
        run = self._run_of(key, metadata["uid"], now)
        changed = self._ended_by_node(pod, run, now)
        if changed is None:
            remaining = run.since + seconds_of(pod, "ready-delay", self._ready_delay) - now
            if remaining > 0 and status.get("phase", "Pending") == "Pending":
                self.queue.add_after(key, remaining)
                return
            changed = self._without_volume(pod, run, now) or self._next(pod, run, now)
        try:
            await self.write_status(PODS, pod, changed)
        except StatusError:
            run.containers.clear()  # the attempts belong to the status that was not written
            raise

    def _run_of(self, key: Name, uid: str, now: float) -> _Run:
        run = self._runs.get(key)
        if run is None or run.uid != uid:
            run = self._runs[key] = _Run(uid, now)
        return run

    async def _stop(self, key: Name, pod: Object) -> None:
        """Delete the pod when its containers have stopped, at the latest after its grace period."""
        metadata, now = pod["metadata"], asyncio.get_running_loop().time()
        grace = metadata.get("deletionGracePeriodSeconds")
        if not grace:
            return
        run = self._run_of(key, metadata["uid"], now)
        if run.stops_since is None:
            run.stops_since = now
            runs = (pod.get("status") or {}).get("phase") == "Running"
            for each in pod["spec"]["containers"] if runs else ():
                text = f"Stopping container {each['name']}"
                name = each["name"]
                self.events.record(pod, "Normal", "Killing", text, component=self.name, container=name)
        remaining = run.stops_since + min(seconds_of(pod, "stop-time", self._stop_delay), grace) - now
        if remaining > 0:
            self.queue.add_after(key, remaining)
        else:
            await self.client.delete("pods", *key, uid=metadata["uid"], grace=0)

    def _ended_by_node(self, pod: Object, run: _Run, now: float) -> Object | None:
        """Return the status of a pod that is evicted or exceeds its deadline; None for any other pod."""
        starved, seconds = annotation_of(pod, "evict"), pod["spec"].get("activeDeadlineSeconds")
        text = self.clock.timestamp()
        if starved in STARVED:
            message = _eviction_message(pod, starved)
            self.warn(pod, "Evicted", message)
            return pod_status.failed(pod, "Evicted", message, text, disrupted=True)
        if seconds is not None:
            remaining = run.since + seconds - now
            if remaining <= 0:
                self.normal(pod, "DeadlineExceeded", DEADLINE)
                return pod_status.failed(pod, "DeadlineExceeded", DEADLINE, text, disrupted=False)
            self.queue.add_after(key_of(pod), remaining)
        return None

    def _without_volume(self, pod: Object, run: _Run, now: float) -> Object | None:
        """Return the status of a pod that still waits for a volume; None for any other pod."""
        asked, volumes = annotation_of(pod, "mount-error"), pod["spec"].get("volumes") or ()
        wanted = [each for each in volumes if asked == "true" or each["name"] == asked]
        status = pod.get("status") or {}
        if not wanted or any(
            "waiting" not in each["state"] for each in status.get("containerStatuses") or ()
        ):
            return None
        attempts = run.containers.setdefault("", Attempts())
        if now >= attempts.due:
            attempts.due = now + min(MOUNT_RETRY * 2**attempts.pulls, LAST_MOUNT_RETRY)
            attempts.pulls += 1
            self.warn(pod, "FailedMount", _mount_message(wanted[0]))
        self.queue.add_after(key_of(pod), attempts.due - now)
        waiting = {"waiting": {"reason": "ContainerCreating"}}
        containers = [pod_status.container_status(each, {}, waiting) for each in pod["spec"]["containers"]]
        return pod_status.of_containers(pod, containers, [], self.clock.timestamp())

    def _next(self, pod: Object, run: _Run, now: float) -> Object:
        status = dict(pod.get("status") or {})
        if "podIP" not in status:
            self._locate(pod, status)
            pod = {**pod, "status": status}
        init, initialized = self._initialize(pod, run, now)
        if not initialized:
            return pod_status.initializing(pod, init, self.clock.timestamp())
        policy = pod["spec"].get("restartPolicy", "Always")
        known = {each["name"]: each for each in status.get("containerStatuses") or ()}
        containers = []
        for each in pod["spec"]["containers"]:
            step = self._step(pod, each, known.get(each["name"], {}), run, now, policy)
            containers.append(step.take(self.runtime.outcome(pod, each)))
        return pod_status.of_containers(pod, containers, init, self.clock.timestamp())

    def _initialize(self, pod: Object, run: _Run, now: float) -> tuple[list[Object], bool]:
        """Return the statuses of the init containers, and whether the app containers may start."""
        known = {each["name"]: each for each in (pod["status"].get("initContainerStatuses") or ())}
        policy = "Never" if pod["spec"].get("restartPolicy") == "Never" else "OnFailure"
        statuses: list[Object] = []
        goes_on = True
        for each in pod["spec"].get("initContainers") or ():
            former, stays = known.get(each["name"], {}), each.get("restartPolicy") == "Always"
            if not goes_on:
                statuses.append(former or pod_status.container_status(each, {}, pod_status.INITIALIZING))
                continue
            outcome = self.runtime.init_outcome(pod, each)
            if not stays and (isinstance(outcome, Running) or pod_status.has_completed(former)):
                if not pod_status.has_completed(former):
                    text = self.clock.timestamp()
                    ended = pod_status.terminated(0, text, text)
                    former = pod_status.container_status(each, former, ended, ready=True)
                statuses.append(former)
                continue
            step = self._step(pod, each, former, run, now, "Always" if stays else policy)
            statuses.append(step.take(outcome))
            goes_on = stays and "running" in statuses[-1]["state"]
        return statuses, goes_on

    def _step(
        self, pod: Object, container: Object, former: Object, run: _Run, now: float, policy: str
    ) -> ContainerStep:
        attempts = run.containers.setdefault(container["name"], Attempts())
        return ContainerStep(self, pod, container, former, policy, attempts, now)

    def _locate(self, pod: Object, status: Object) -> None:
        """Set the IP addresses of the pod and of its node in `status`."""
        node = self.view.get(NODES, "", pod["spec"]["nodeName"]) or {}
        host = node_address(node)
        status.setdefault("hostIP", host)
        status.setdefault("hostIPs", [{"ip": host}])
        address = host
        if not pod["spec"].get("hostNetwork"):
            network = (node.get("spec") or {}).get("podCIDR") or DEFAULT_NETWORK
            address = self._addresses.take(Key(*PODS, *key_of(pod)), network)
        status |= {"podIP": address, "podIPs": [{"ip": address}]}

    def _on_node(self, change: Change) -> None:
        name = change.key.name
        if change.new is not None and is_lost(change.new.decode()):
            self._lost.add(name)
        elif name in self._lost:
            self._lost.discard(name)
            for stored in self.view.select(PODS):
                if stored.decode()["spec"].get("nodeName") == name:
                    self.queue.add((stored.key.namespace, stored.key.name))

    def _on_pod(self, change: Change) -> None:
        if change.new is None:
            self._runs.pop((change.key.namespace, change.key.name), None)
            self._addresses.release(change.key)
        elif MARK in change.new.data:
            if change.old is None:
                # The pod may have started before a restart of devcluster.
                pod = change.new.decode()
                address = (pod.get("status") or {}).get("podIP")
                if address and not pod["spec"].get("hostNetwork"):
                    self._addresses.keep(change.key, address)
            self.enqueue(change)


def _mount_message(volume: Object) -> str:
    cause = "rpc error: code = Internal desc = mount failed: exit status 32"
    for kind, field in (("secret", "secretName"), ("configMap", "name")):
        if kind in volume:
            cause = f'{kind.lower()} "{volume[kind].get(field, "")}" not found'
    return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {cause}'


def _eviction_message(pod: Object, starved: str) -> str:
    threshold, available, usage = STARVED[starved]
    text = (
        f"The node was low on resource: {starved}. Threshold quantity: {threshold}, available: {available}. "
    )
    for container in pod["spec"]["containers"]:
        if starved not in ((container.get("resources") or {}).get("requests") or {}):
            larger = f"has larger consumption of {starved}"
            text += f"Container {container['name']} was using {usage}, request is 0, {larger}. "
    return text
