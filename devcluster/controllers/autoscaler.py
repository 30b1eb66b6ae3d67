"""Controller of HorizontalPodAutoscalers, and the computation of their metrics."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from devcluster.builtin.checks import quantity_text, value_of
from devcluster.builtin.metrics import PREFIX, metric_of
from devcluster.controllers.client import NAMESPACES, PODS, Object
from devcluster.controllers.controller import Controller, Environment, Name, Routes
from devcluster.controllers.pod_status import is_active, is_ready
from devcluster.errors import StatusError
from devcluster.kinds import conditions
from devcluster.storage import Change
from devcluster.storage.selectors import LabelSelector, SelectorError

TOLERANCE = Fraction(1, 10)
"""The largest ratio by which a metric may differ from its target without effect."""


class NoMetric(Exception):
    """Error for a metric that is missing or not comparable with its target, with Kubernetes' message."""


class Proposal(NamedTuple):
    """Proposed number of replicas for one metric, with the metric's current value."""

    replicas: int
    name: str
    """The metric's name in messages."""
    current: Object


def propose_for_pods(
    source: Object, pods: Sequence[Object], replicas: int, *, metric: str, container: str, about: str
) -> Proposal:
    """Return the replicas that a metric of pods proposes; `metric` is the annotation's name.

    A pod without the metric counts as using 100 % of the target or nothing, whichever changes the replicas
    less. For cpu, a pod that is not ready counts as using nothing when scaling up, else it does not count.
    """
    name, target = source.get("name") or source["metric"]["name"], source["target"]
    usage: dict[str, Fraction] = {}
    unready: list[str] = []
    missing: list[str] = []
    for pod in pods:
        key, found = pod["metadata"]["name"], metric_of(pod, metric)
        if found is None:
            missing.append(key)
            continue
        if container and all(each["name"] != container for each in pod["spec"]["containers"]):
            where = (
                f"container {container} not present in metrics for pod {pod['metadata']['namespace']}/{key}"
            )
            text = f"unable to get metrics for resource {name}: failed to get container metrics: {where}"
            raise NoMetric(f"failed to get {name} utilization: {text}")
        count = 1 if container or metric.startswith("metric.") else len(pod["spec"]["containers"])
        if metric.startswith("cpu") and not is_ready(pod):
            unready.append(key)
        else:
            usage[key] = found * count
    if not usage:
        raise NoMetric(_absent(name, metric))
    utilization = target.get("averageUtilization")
    average = sum(usage.values(), Fraction(0)) / len(usage)
    if utilization is None:
        wanted = dict.fromkeys(
            [pod["metadata"]["name"] for pod in pods], value_of(target.get("averageValue", 0))
        )
        shown: Object = {"averageValue": _text(average, metric)}
        about = f"pods metric {name}" if metric.startswith("metric.") else f"{name} {about}"
    else:
        requests = {pod["metadata"]["name"]: _request(pod, name, container) for pod in pods}
        wanted = {key: amount * utilization / 100 for key, amount in requests.items()}
        requested = sum(requests[key] for key in usage)
        if not requested:
            raise NoMetric(f"failed to get {name} utilization: no metrics returned matched known pods")
        percent = 100 * sum(usage.values()) / requested
        shown = {"averageUtilization": int(percent), "averageValue": _text(average, metric)}
        about = f"{name} {about} utilization (percentage of request)"
    count = _rebalanced(usage, wanted, unready, missing, replicas)
    return Proposal(count, about, shown)


def _rebalanced(
    usage: dict[str, Fraction],
    wanted: dict[str, Fraction],
    unready: Sequence[str],
    missing: Sequence[str],
    replicas: int,
) -> int:
    def ratio_of(used: dict[str, Fraction]) -> Fraction:
        asked = sum(wanted[key] for key in used)
        return sum(used.values(), Fraction(0)) / asked if asked else Fraction(1)

    ratio = ratio_of(usage)
    grows = ratio > 1
    if not missing and not (unready and grows):
        return replicas if abs(1 - ratio) <= TOLERANCE else math.ceil(ratio * len(usage))
    filled = dict(usage)
    filled |= {key: Fraction(0) if grows else wanted[key] for key in missing}
    if grows:
        filled |= dict.fromkeys(unready, Fraction(0))
    new = ratio_of(filled)
    count = math.ceil(new * len(filled))
    if abs(1 - new) <= TOLERANCE or (new > 1) != grows or (count < replicas) == grows:
        return replicas
    return count


def propose_for_value(source: Object, value: Fraction, replicas: int, ready: int, *, about: str) -> Proposal:
    """Return the replicas that an Object or External metric proposes; `ready` is the number of ready pods."""
    target = source["target"]
    if target.get("averageValue") is not None:
        ratio = value / (value_of(target["averageValue"]) * max(replicas, 1))
        count = (
            replicas if abs(1 - ratio) <= TOLERANCE else math.ceil(value / value_of(target["averageValue"]))
        )
        return Proposal(count, about, {"averageValue": _text(value / max(replicas, 1), "")})
    ratio = value / value_of(target["value"])
    count = replicas if abs(1 - ratio) <= TOLERANCE else math.ceil(ratio * ready)
    return Proposal(count, about, {"value": _text(value, "")})


def _request(pod: Object, name: str, container: str) -> Fraction:
    total = Fraction(0)
    for each in pod["spec"]["containers"]:
        if container and each["name"] != container:
            continue
        request = ((each.get("resources") or {}).get("requests") or {}).get(name)
        if request is None:
            where = f"container {each['name']} of Pod {pod['metadata']['name']}"
            raise NoMetric(f"failed to get {name} utilization: missing request for {name} in {where}")
        total += value_of(request)
    return total


def _absent(name: str, metric: str) -> str:
    """Return the message for a metric that no pod has; a real cluster without metrics server gives it too."""
    kind, api = ("custom", "custom.metrics") if metric.startswith("metric.") else ("resource", "metrics")
    text = f"unable to get metric {name}"
    if kind == "resource":
        text = f"failed to get {name} utilization: unable to get metrics for resource {name}"
    absent = f"the server could not find the requested resource (get pods.{api}.k8s.io)"
    return f"{text}: unable to fetch metrics from {kind} metrics API: {absent}"


def _text(value: Fraction, metric: str) -> str:
    if metric == "memory":
        return quantity_text(Fraction(math.ceil(value)), binary=True)
    return quantity_text(value, binary=False)


AUTOSCALERS = ("autoscaling", "horizontalpodautoscalers")
PERIOD = 15.0
"""Seconds between two reads of the metrics; a change of a pod's or namespace's causes an earlier read."""
STABILIZATION = 300
"""Seconds for which a scale-down uses the highest recommendation, unless the autoscaler sets another."""
FAILURES = {
    "ContainerResource": "FailedGetContainerResourceMetric",
    "External": "FailedGetExternalMetric",
    "Object": "FailedGetObjectMetric",
    "Pods": "FailedGetPodsMetric",
    "Resource": "FailedGetResourceMetric",
}
FIELDS = {kind: kind[0].lower() + kind[1:] for kind in FAILURES}
"""The fields of a metric and of its status, by the metric's type."""


class _Moment(NamedTuple):
    """Recommended number of replicas, or change of the number, with its time."""

    at: datetime.datetime
    replicas: int


class AutoscalerController(Controller):
    """HorizontalPodAutoscaler controller, which reads metrics from annotations (`metric_of`)."""

    name = "horizontal-pod-autoscaler"
    batch_period = 0.05

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._recommended: dict[Name, list[_Moment]] = {}
        self._rescaled: dict[Name, list[_Moment]] = {}

    def routes(self) -> Routes:
        return {AUTOSCALERS: self._on_autoscaler, PODS: self._on_pod, NAMESPACES: self._on_pod}

    async def sync(self, key: Name) -> None:
        autoscaler = self.living(AUTOSCALERS, key)
        if autoscaler is None:
            return
        self.queue.add_after(key, PERIOD)
        status = {**(autoscaler.get("status") or {})}
        status["conditions"] = [{**each} for each in status.get("conditions") or ()]
        await self._advance(key, autoscaler, status)
        await self.write_status(AUTOSCALERS, autoscaler, status)

    async def _advance(self, key: Name, autoscaler: Object, status: Object) -> None:
        target = autoscaler["spec"]["scaleTargetRef"]
        place = (target.get("apiVersion", ""), target["kind"], key[0], target["name"])
        try:
            scale = await self.client.scale(*place)
        except StatusError as error:
            self.warn(autoscaler, "FailedGetScale", error.message)
            text = f"the HPA controller was unable to get the target's current scale: {error.message}"
            self._set(status, "AbleToScale", "False", "FailedGetScale", text)
            return
        text = "the HPA controller was able to get the target's current scale"
        self._set(status, "AbleToScale", "True", "SucceededGetScale", text)
        current = scale["spec"].get("replicas", 0)
        spec, reason = autoscaler["spec"], ""
        least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
        status["currentMetrics"] = None
        if current == 0 and least != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set(status, "ScalingActive", "False", "ScalingDisabled", text)
            desired = 0
        elif current > most or current < least:
            desired = most if current > most else least
            word = "above Spec.MaxReplicas" if current > most else "below Spec.MinReplicas"
            reason = f"Current number of replicas {word}"
        else:
            found = self._measure(key, autoscaler, scale, current, status)
            desired = current
            if found is not None:
                desired = self._limit(key, autoscaler, status, current, found)
                reason = f"{found.name} above target" if desired > current else "All metrics below target"
        if desired != current:
            await self.client.scale(*place, replicas=desired)
            text = f"the HPA controller was able to update the target scale to {desired}"
            self._set(status, "AbleToScale", "True", "SucceededRescale", text)
            self.normal(autoscaler, "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
            status["lastScaleTime"] = self.clock.timestamp()
            self._rescaled.setdefault(key, []).append(_Moment(self.clock.now(), desired - current))
        status["currentReplicas"], status["desiredReplicas"] = current, desired
        if not current:
            del status["currentReplicas"]

    def _measure(
        self, key: Name, autoscaler: Object, scale: Object, current: int, status: Object
    ) -> Proposal | None:
        """Return the proposal with the most replicas, or None if unknown; set `status.currentMetrics`."""
        proposals: list[Proposal] = []
        shown: list[Object] = []
        failure: tuple[str, str] | None = None
        selector = (scale.get("status") or {}).get("selector", "")
        try:
            pods = self._pods(key[0], selector)
        except SelectorError as error:
            self._set(status, "ScalingActive", "False", "InvalidSelector", str(error))
            self.warn(autoscaler, "InvalidSelector" if selector else "SelectorRequired", str(error))
            return None
        metrics = autoscaler["spec"].get("metrics") or ()
        for metric in metrics:
            kind = metric["type"]
            try:
                proposal = self._propose(metric, autoscaler, pods, current)
            except NoMetric as error:
                failure = failure or (FAILURES[kind], str(error))
                self.warn(autoscaler, FAILURES[kind], str(error))
                shown.append({"type": ""})
                continue
            proposals.append(proposal)
            source = {name: value for name, value in metric[FIELDS[kind]].items() if name != "target"}
            shown.append({"type": kind, FIELDS[kind]: {**source, "current": proposal.current}})
        status["currentMetrics"] = shown
        best = max(proposals, key=lambda each: each.replicas, default=None)
        if best is None or (failure is not None and best.replicas < current):
            reason, text = failure or ("", "")
            text = f"the HPA was unable to compute the replica count: {text}"
            self._set(status, "ScalingActive", "False", reason, text)
            invalid = f"{len(metrics) - len(proposals)} invalid out of {len(metrics)}"
            message = f"invalid metrics ({invalid}), first error is: {(failure or ('', ''))[1]}"
            self.warn(autoscaler, "FailedComputeMetricsReplicas", message)
            return None
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._set(status, "ScalingActive", "True", "ValidMetricFound", text)
        return best

    def _propose(self, metric: Object, autoscaler: Object, pods: Sequence[Object], current: int) -> Proposal:
        kind = metric["type"]
        source = metric[FIELDS[kind]]
        if kind in {"Resource", "ContainerResource"}:
            container = source.get("container", "")
            about = f"container resource of container {container}" if container else "resource"
            return propose_for_pods(
                source, pods, current, metric=source["name"], container=container, about=about
            )
        name = source["metric"]["name"]
        if kind == "Pods":
            return propose_for_pods(source, pods, current, metric=f"metric.{name}", container="", about="")
        value, about = self._whole(kind, source, autoscaler, name)
        return propose_for_value(source, value, current, sum(map(is_ready, pods)), about=about)

    def _whole(self, kind: str, source: Object, autoscaler: Object, name: str) -> tuple[Fraction, str]:
        """Return the value of an Object or External metric, and its name for messages."""
        namespace = autoscaler["metadata"]["namespace"]
        if kind == "External":
            holder = self.view.get(NAMESPACES, "", namespace)
            about, api = f"external metric {name}({source['metric'].get('selector') or 'nil'})", "external"
        else:
            described = source["describedObject"]
            holder = self.client.find(
                described.get("apiVersion", ""), described["kind"], namespace, described["name"]
            )
            about, api = f"{described['kind']} metric {name}", "custom"
        value = metric_of(holder, f"metric.{name}")
        if value is None:
            problem = f"unable to fetch metrics from {api} metrics API"
            text = f"unable to get {api} metric {namespace}/{name}: {problem}"
            raise NoMetric(f"{text}: the server could not find the requested resource")
        return value, about

    def _limit(self, key: Name, autoscaler: Object, status: Object, current: int, found: Proposal) -> int:
        """Return the replicas after stabilization, scaling policies, minReplicas and maxReplicas."""
        spec, now = autoscaler["spec"], self.clock.now()
        behavior = spec.get("behavior") or {}
        wanted = self._stabilized(key, behavior, current, found.replicas, now)
        text = "recommended size matches current size"
        if wanted != found.replicas:
            text = "recent recommendations were higher than current one, "
            text += "applying the highest recent recommendation"
            self._set(status, "AbleToScale", "True", "ScaleDownStabilized", text)
        else:
            self._set(status, "AbleToScale", "True", "ReadyForNewScale", text)
        least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
        limit = ("False", "DesiredWithinRange", "the desired count is within the acceptable range")
        if wanted > current:
            fastest = self._fastest(key, behavior.get("scaleUp"), current, now, up=True)
            if wanted > fastest:
                text = "the desired replica count is increasing faster than the maximum scale rate"
                wanted, limit = max(fastest, current), ("True", "ScaleUpLimit", text)
        elif wanted < current and behavior:
            fastest = self._fastest(key, behavior.get("scaleDown"), current, now, up=False)
            if wanted < fastest:
                text = "the desired replica count is decreasing faster than the maximum scale rate"
                wanted, limit = min(fastest, current), ("True", "ScaleDownLimit", text)
        if wanted > most:
            text = "the desired replica count is more than the maximum replica count"
            wanted, limit = most, ("True", "TooManyReplicas", text)
        elif wanted < least:
            text = "the desired replica count is less than the minimum replica count"
            wanted, limit = least, ("True", "TooFewReplicas", text)
        self._set(status, "ScalingLimited", *limit)
        return wanted

    def _stabilized(
        self, key: Name, behavior: Object, current: int, wanted: int, now: datetime.datetime
    ) -> int:
        """Return the recommended replicas after both stabilization windows, of scaleUp and scaleDown."""
        up = (behavior.get("scaleUp") or {}).get("stabilizationWindowSeconds", 0)
        down = (behavior.get("scaleDown") or {}).get("stabilizationWindowSeconds", STABILIZATION)
        history = self._recommended.setdefault(key, [_Moment(now, current)])
        history.append(_Moment(now, wanted))
        history[:] = [
            each for each in history if each.at > now - datetime.timedelta(seconds=max(up, down, 1))
        ]
        lowest = min([wanted, *_since(history, now, up)])
        highest = max([wanted, *_since(history, now, down)])
        if wanted > current:
            return max(current, lowest)
        return min(current, highest) if wanted < current else wanted

    def _fastest(
        self, key: Name, rules: Object | None, current: int, now: datetime.datetime, *, up: bool
    ) -> int:
        """Return the most replicas that the scaling policies allow or, without `up`, the fewest replicas."""
        if rules is None:
            return max(2 * current, 4) if up else 0
        if rules.get("selectPolicy") == "Disabled":
            return current
        limits = []
        for policy in rules.get("policies") or ():
            recent = _since(self._rescaled.get(key, ()), now, policy["periodSeconds"])
            start = current - sum(each for each in recent if (each > 0) == up)
            step = policy["value"]
            if policy["type"] == "Percent":
                limits.append(
                    math.ceil(start * (1 + step / 100)) if up else math.floor(start * (1 - step / 100))
                )
            else:
                limits.append(start + step if up else start - step)
        furthest = max if (rules.get("selectPolicy") != "Min") == up else min
        return furthest(limits, default=current)

    def _pods(self, namespace: str, selector: str) -> list[Object]:
        """Return the active pods that the selector matches; raise SelectorError if it is empty or invalid."""
        if not selector:
            raise SelectorError("the HPA target's scale is missing a selector")
        try:
            matcher = LabelSelector.parse(selector)
        except SelectorError as error:
            text = "couldn't convert selector into a corresponding internal selector object"
            raise SelectorError(f"{text}: {error}") from None
        pods = [
            stored.decode() for stored in self.view.select(PODS, namespace) if matcher.matches(stored.labels)
        ]
        return [pod for pod in pods if is_active(pod)]

    def _set(self, status: Object, kind: str, value: str, reason: str, message: str) -> None:
        conditions.update_condition({"status": status}, kind, value, reason, message, self.clock.timestamp())

    def _on_autoscaler(self, change: Change) -> None:
        if change.new is None:
            key = (change.key.namespace, change.key.name)
            self._recommended.pop(key, None)
            self._rescaled.pop(key, None)
        elif change.old is None or change.old.decode()["spec"] != change.new.decode()["spec"]:
            self.enqueue(change)

    def _on_pod(self, change: Change) -> None:
        if change.old is None or change.new is None or PREFIX.encode() not in change.new.data:
            return
        before, after = (each.decode()["metadata"].get("annotations") for each in (change.old, change.new))
        if before == after:
            return
        self.enqueue_all(AUTOSCALERS, change.key.namespace or change.key.name)


def _since(history: Iterable[_Moment], now: datetime.datetime, seconds: int) -> list[int]:
    start = now - datetime.timedelta(seconds=seconds)
    return [each.replicas for each in history if each.at > start]
