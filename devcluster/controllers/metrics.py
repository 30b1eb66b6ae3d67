"""The metrics of the simulated pods, as annotations say, and the replicas that a metric asks for.

| annotation                          | of                         | is                              |
|-------------------------------------|----------------------------|---------------------------------|
| `devcluster.local/cpu: 250m`        | a pod                      | the usage of each container     |
| `devcluster.local/memory: 64Mi`     | a pod                      | the usage of each container     |
| `devcluster.local/metric.NAME: "5"` | a pod                      | a metric of type `Pods`         |
| `devcluster.local/metric.NAME: "5"` | any object                 | a metric of type `Object`       |
| `devcluster.local/metric.NAME: "5"` | the autoscaler's namespace | a metric of type `External`     |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from devcluster.builtin.quantity import quantity_text, value_of
from devcluster.controllers.behaviour import PREFIX
from devcluster.controllers.client import Object
from devcluster.controllers.pods import is_ready

__all__ = ["NoMetric", "Proposal", "named_metric", "propose_for_pods", "propose_for_value"]

TOLERANCE = Fraction(1, 10)
"""How far a metric may be from its target without effect."""


class NoMetric(Exception):
    """The metric is not there, or cannot be compared with its target; the text is the autoscaler's."""


class Proposal(NamedTuple):
    """The replica count that a metric requires."""

    replicas: int
    name: str
    """The metric's name in messages."""
    current: Object
    """The metric's status."""


def named_metric(obj: Object | None, name: str) -> Fraction | None:
    """Return a metric that an object's annotations give, or None."""
    annotations = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    text = annotations.get(PREFIX + name)
    return None if text is None else value_of(text)


def propose_for_pods(
    source: Object, pods: Sequence[Object], replicas: int, *, metric: str, container: str, about: str
) -> Proposal:
    """Return the replicas for a metric that each pod has; `metric` is the annotation's name.

    Pods without the metric count as if they used all or nothing, whichever changes less; those that are not
    ready use nothing when more are wanted.
    """
    name, target = source.get("name") or source["metric"]["name"], source["target"]
    usage: dict[str, Fraction] = {}
    unready: list[str] = []
    missing: list[str] = []
    for pod in pods:
        key, found = pod["metadata"]["name"], named_metric(pod, metric)
        if found is None:
            missing.append(key)
            continue
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
        percent = 100 * sum(usage.values()) / sum(requests[key] for key in usage)
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
    """Return the replicas for a metric that the target has as a whole."""
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
    """Return the message about a metric that no pod has, as of a cluster without a metrics server."""
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
