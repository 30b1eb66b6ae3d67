"""The table row of a pod: its state in a word, and its counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["pod_cells", "wide_cells"]

Object = Mapping[str, Any]

NONE = "<none>"
TERMINAL = frozenset({"Succeeded", "Failed"})


class _Restarts:
    """The number of containers' restarts, and the time of the last."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def add(self, status: Object) -> None:
        self.count += status.get("restartCount", 0)
        ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        # All times have the same format, in UTC, so they sort as text.
        self.last = max(self.last, ended)


def pod_cells(pod: Object, since: Callable[[str], str]) -> tuple[str, str, str]:
    """Return READY, STATUS and RESTARTS; `since` formats the age of a time."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    phase = status.get("phase", "")
    reason = status.get("reason") or phase
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    sidecars = {
        each.get("name") for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"
    }
    total = len(spec.get("containers") or ()) + len(sidecars)
    restarts, sidecar_restarts = _Restarts(), _Restarts()
    initializing, ready = "", 0
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        restarts.add(container)
        sidecar = container.get("name") in sidecars
        if sidecar:
            sidecar_restarts.add(container)
        terminated = (container.get("state") or {}).get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        initializing = _initializing(container, index, len(spec.get("initContainers") or ()))
        break
    if not initializing or _has(status, "Initialized"):
        restarts = sidecar_restarts
        main_ready, reason = _running(status, initializing or reason, restarts)
        ready += main_ready
    else:
        reason = initializing
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in TERMINAL:
            reason = "Terminating"
    shown = str(restarts.count)
    if restarts.count and restarts.last:
        shown = f"{restarts.count} ({since(restarts.last)} ago)"
    return f"{ready}/{total}", reason, shown


def _initializing(container: Object, index: int, total: int) -> str:
    state = container.get("state") or {}
    terminated, waiting = state.get("terminated"), state.get("waiting") or {}
    if terminated is not None:
        return f"Init:{_ended(terminated)}"
    if waiting.get("reason") and waiting["reason"] != "PodInitializing":
        return f"Init:{waiting['reason']}"
    return f"Init:{index}/{total}"


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _running(status: Object, reason: str, restarts: _Restarts) -> tuple[int, str]:
    ready, error = 0, ""
    for container in reversed(status.get("containerStatuses") or ()):
        restarts.add(container)
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _ended(terminated)
            if terminated.get("exitCode"):
                error = reason
        elif container.get("ready") and state.get("running") is not None:
            ready += 1
    if reason == "Completed":
        if ready and _has(status, "Ready"):
            reason = "Running"
        elif error:
            reason = error
        elif ready:
            reason = "NotReady"
    return ready, reason


def _has(status: Object, kind: str) -> bool:
    return any(
        each.get("type") == kind and each.get("status") == "True" for each in status.get("conditions") or ()
    )


def wide_cells(pod: Object) -> tuple[str, str, str, str]:
    """Return IP, NODE, NOMINATED NODE and READINESS GATES."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    addresses = status.get("podIPs") or ()
    gates = [each.get("conditionType", "") for each in spec.get("readinessGates") or ()]
    return (
        (addresses[0].get("ip") if addresses else "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{sum(_has(status, gate) for gate in gates)}/{len(gates)}" if gates else NONE,
    )
