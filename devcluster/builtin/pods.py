"""Defaults, validation and table cells of Pods, and the sums of their containers' resources."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from devcluster.builtin.base import BuiltinStrategy, Object, child, columns, unified
from devcluster.builtin.checks import value_of
from devcluster.builtin.pod_checks import check_deletion_cost, check_pod_spec
from devcluster.builtin.pod_defaults import default_pod, name_warnings, pod_warnings
from devcluster.errors import FieldError, forbidden
from devcluster.kinds.field import Field
from devcluster.kinds.strategy import Context

UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
EVICTION_SECONDS = 300
GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PodStrategy(BuiltinStrategy):
    """Strategy (defaults, validation, grace periods, table cells) of Pods; few fields of a pod can change."""

    columns = columns(
        "Name | Ready | Status | Restarts | Age | IP* | Node* | Nominated Node* | Readiness Gates*"
    )
    has_generation = True
    status_reset = ("spec", ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences"))

    def begin(self, new: Object, context: Context) -> None:
        new["status"] = {"phase": "Pending"}
        spec = child(new, "spec")
        if spec.get("schedulingGates"):
            new["status"]["conditions"] = [{**GATED, "lastTransitionTime": context.now}]
        _tolerate_lost_nodes(spec)
        _prioritize(new, context)

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
        _tolerate_lost_nodes(new["spec"])
        super().prepare_update(new, old, context)

    def default(self, obj: Object) -> None:
        child(obj, "spec")
        default_pod(obj)
        child(obj, "status")["qosClass"] = quality_of_service(obj["spec"])

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        pod = Field(new)
        spec = pod["spec"]
        check_deletion_cost(pod["metadata"]["annotations"])
        check_pod_spec(spec)
        for each in (*spec["containers"], *spec["initContainers"]):
            image = each.at("image", "")
            if image.value != image.value.strip():
                image.invalid("must not have leading or trailing whitespace")
        if not context.subresource and spec["ephemeralContainers"]:
            spec["ephemeralContainers"].forbidden("cannot be set on create")
        if spec["nodeName"] and spec["schedulingGates"]:
            spec["nodeName"].forbidden("cannot be set until all schedulingGates have been cleared")
        return spec.errors

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        pod, before = Field(new), old["spec"]
        spec, annotations = pod["spec"], pod["metadata"]["annotations"]
        check_deletion_cost(annotations)
        check_pod_spec(spec)
        check_deletion_cost(annotations)  # the real server checks an update twice
        if context.subresource not in {"ephemeralcontainers", "resize"}:
            _check_changes(spec, before)
        return spec.errors

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        annotations = Field(new)["metadata"]["annotations"]
        check_deletion_cost(annotations)
        return annotations.errors

    def prepare_status_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_status_update(new, old, context)
        for field in ("ownerReferences", "deletionTimestamp"):
            if field in old["metadata"]:
                new["metadata"][field] = old["metadata"][field]
            else:
                new["metadata"].pop(field, None)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        if old is not None:
            return []
        return name_warnings(new["metadata"].get("name", ""), "the Pod's hostname") + pod_warnings(
            new["spec"], "spec"
        )

    def grace_period(self, obj: Object, asked: int | None) -> int | None:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in {"Failed", "Succeeded"}:
            return 0
        seconds = asked if asked is not None else spec.get("terminationGracePeriodSeconds") or 0
        return seconds if seconds >= 0 else 1

    def fields(self, obj: Object) -> Mapping[str, str]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        addresses = status.get("podIPs") or ()
        return {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase", ""),
            "status.podIP": addresses[0].get("ip", "") if addresses else "",
            "status.nominatedNodeName": status.get("nominatedNodeName", ""),
        }

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [*pod_cells(obj, self.since), *wide_cells(obj)]

    def row_conditions(self, obj: Object) -> list[Object]:
        phase = (obj.get("status") or {}).get("phase")
        messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
        if phase not in messages:
            return []
        return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


def _tolerate_lost_nodes(spec: Object) -> None:
    listed = spec.get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if any(
            each.get("key", "") in {key, ""} and each.get("effect", "") in {"NoExecute", ""}
            for each in listed
        ):
            continue
        listed = [
            *listed,
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": EVICTION_SECONDS},
        ]
    spec["tolerations"] = listed


def _prioritize(pod: Object, context: Context) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    found = _priority_class(name, context)
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    about = pod["metadata"].get("name") or pod["metadata"].get("generateName", "")
    if found is None and name and name not in PRIORITIES:
        raise forbidden("", "pods", about, f"no PriorityClass with name {name} was found")
    priority, given = found.get("value", 0) if found else PRIORITIES.get(name or "", 0), spec.get("priority")
    if given is not None and given != priority:
        text = (
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name"
        )
        raise forbidden("", "pods", about, text)
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", (found or {}).get("preemptionPolicy", "PreemptLowerPriority"))


def _priority_class(name: str | None, context: Context) -> Object | None:
    for stored in context.store.select("scheduling.k8s.io", "priorityclasses"):
        # A search in the bytes is fast enough for each pod; it rarely finds a class.
        if stored.key.name == name or (not name and b'"globalDefault":true' in stored.data):
            return stored.decode()
    return None


def _check_changes(spec: Field, before: Object) -> None:
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) != len(before.get(name) or ()):
            spec[name].forbidden("pod updates may not add or remove containers")
            return
        for each in spec[name]:
            if not each["image"]:
                each["image"].required()
    deadline, old = spec["activeDeadlineSeconds"], before.get("activeDeadlineSeconds")
    if old is not None and not deadline.is_set:
        deadline.invalid("must not update from a positive integer to nil value")
    elif old is not None and old < deadline.value:
        deadline.invalid("must be less than or equal to previous value")
    there = [_essence(each) for each in spec.get("tolerations") or ()]
    if any(_essence(each) not in there for each in before.get("tolerations") or ()):
        text = "existing toleration can not be modified except its tolerationSeconds"
        spec["tolerations"].forbidden(text)
    masked = _masked(spec.value, before)
    if _without_nothing(masked) != _without_nothing(before):
        difference = unified(_sorted(before), _sorted(masked))
        spec.forbidden(f"pod updates may not change fields other than {UPDATABLE}\n{difference}")


def _masked(spec: Object, before: Object) -> Object:
    """Return the new spec with old values in all mutable fields, to find changes of other fields."""
    masked: Object = json.loads(json.dumps(spec))
    for field in ("containers", "initContainers"):
        for container, known in zip(masked.get(field) or (), before.get(field) or (), strict=True):
            container["image"] = known.get("image", "")
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        masked.pop(field, None)
        if field in before:
            masked[field] = before[field]
    grace = "terminationGracePeriodSeconds"
    if (before.get(grace) or 0) < 0 and masked.get(grace) == 1:
        masked[grace] = before[grace]
    if before.get("schedulingGates"):
        masked["nodeSelector"] = before.get("nodeSelector")
    return masked


def _essence(toleration: Object) -> Object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _without_nothing(spec: Object) -> Object:
    return {key: value for key, value in spec.items() if value not in (None, {}, [])}


def _sorted(spec: Object) -> Object:
    return {key: spec[key] for key in sorted(spec)}


COMPUTE = ("cpu", "memory")


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """Return the QoS class of a pod: `Guaranteed`, `Burstable` or `BestEffort`."""
    asked = limited = False
    guaranteed = True
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        if not requests and not limits:
            guaranteed = False
            continue
        asked = asked or any(value_of(requests.get(name, 0)) for name in COMPUTE)
        limited = limited or any(value_of(limits.get(name, 0)) for name in COMPUTE)
        guaranteed = guaranteed and all(
            value_of(limits.get(name, 0))
            and value_of(requests.get(name, limits.get(name, 0))) == value_of(limits[name])
            for name in COMPUTE
        )
    if not asked and not limited:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def pod_resources(spec: Mapping[str, Any], part: str) -> dict[str, Fraction]:
    """Return the resources that a pod with this spec uses; `part` is `requests` or `limits`.

    Init containers run one after the other, so the largest counts. Sidecar containers, whose restartPolicy is
    Always, keep running, so their amounts are added.
    """
    total: dict[str, Fraction] = {}
    for container in spec.get("containers") or ():
        for name, amount in _amounts(container, part).items():
            total[name] = total.get(name, Fraction(0)) + amount
    sidecars: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        stays = container.get("restartPolicy") == "Always"
        for name, amount in _amounts(container, part).items():
            needed = amount + sidecars.get(name, 0)
            if stays:
                sidecars[name] = needed
                total[name] = total.get(name, Fraction(0)) + amount
            total[name] = max(total.get(name, Fraction(0)), needed)
    return total


def _amounts(container: Mapping[str, Any], part: str) -> dict[str, Fraction]:
    listed = (container.get("resources") or {}).get(part) or {}
    return {name: value_of(amount) for name, amount in listed.items()}


NONE = "<none>"
TERMINAL = frozenset({"Succeeded", "Failed"})


class _Restarts:
    """Number of restarts of all containers of a pod, and the time of the last restart."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def add(self, status: Object) -> None:
        self.count += status.get("restartCount", 0)
        ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        # All times have the same format, in UTC, so they sort as text.
        self.last = max(self.last, ended)


def pod_cells(pod: Object, since: Callable[[str], str]) -> tuple[str, str, str]:
    """Return the cells READY, STATUS and RESTARTS; `since` formats the age of a timestamp."""
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
    """Return the cells of the wide output: IP, NODE, NOMINATED NODE and READINESS GATES."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    addresses = status.get("podIPs") or ()
    gates = [each.get("conditionType", "") for each in spec.get("readinessGates") or ()]
    return (
        (addresses[0].get("ip") if addresses else "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{sum(_has(status, gate) for gate in gates)}/{len(gates)}" if gates else NONE,
    )
