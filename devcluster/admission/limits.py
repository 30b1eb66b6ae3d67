"""Admission plugins LimitRanger and ResourceQuota, which limit containers, pods, claims and namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from devcluster.admission.plugins import Plugin
from devcluster.api.interfaces import AdmissionInfo
from devcluster.builtin.checks import value_of
from devcluster.builtin.pods import pod_resources
from devcluster.builtin.quotas import QuotaLedger, amounts_text, counts, missing_amounts, usage_of
from devcluster.storage.store import Store

Object = dict[str, Any]

PODS, CLAIMS = ("", "pods"), ("", "persistentvolumeclaims")
UPDATED = frozenset({CLAIMS, ("", "services")})
"""Resources whose updates may use more of a quota."""
ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger(Plugin):
    """The plugin that applies the LimitRanges of a namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, info: AdmissionInfo) -> bool:
        place = info.resource.stored
        is_ours = (place == PODS and info.operation == "CREATE") or (
            place == CLAIMS and info.operation in {"CREATE", "UPDATE"}
        )
        return is_ours and not info.subresource and bool(self._ranges(info.namespace))

    async def complete(self, info: AdmissionInfo) -> None:
        """Add missing requests and limits to the containers of a new pod."""
        if info.resource.stored != PODS:
            return
        assert info.obj is not None
        done: list[str] = []
        for limits in self._ranges(info.namespace):
            wanted = [each for each in limits if each.get("type") == "Container"]
            spec = info.obj["spec"]
            for field, shown in (("containers", "container"), ("initContainers", "init container")):
                for container in spec.get(field) or ():
                    for part, default in (("requests", "defaultRequest"), ("limits", "default")):
                        if names := _fill(container, part, [each.get(default) or {} for each in wanted]):
                            what = part.removesuffix("s")
                            done.append(f"{', '.join(names)} {what} for {shown} {container['name']}")
        if done:
            annotations = info.obj["metadata"].get("annotations") or {}
            text = f"LimitRanger plugin set: {'; '.join(done)}"
            info.obj["metadata"]["annotations"] = {**annotations, ANNOTATION: text}

    def check(self, info: AdmissionInfo) -> None:
        """Raise StatusError for a pod or PersistentVolumeClaim that violates a LimitRange."""
        assert info.obj is not None
        spec = info.obj.get("spec") or {}
        for limits in self._ranges(info.namespace):
            wrong = [
                text
                for limit in limits
                for requests, ends in _bounded(spec, limit.get("type", ""), info.resource.stored)
                for text in _violations(limit, requests, ends)
            ]
            if wrong:
                text = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
                raise info.refusal(text)

    def _ranges(self, namespace: str) -> list[list[Object]]:
        found = self._store.select("", "limitranges", namespace) if namespace else ()
        return [stored.decode()["spec"].get("limits") or [] for stored in found]


def _fill(container: Object, part: str, defaults: list[Object]) -> list[str]:
    """Fill in the missing amounts of `part` (requests or limits), and return the names of their resources."""
    resources = container.setdefault("resources", {})
    known = resources.get(part) or {}
    new = {name: amount for each in defaults for name, amount in each.items() if name not in known}
    if new:
        resources[part] = {**known, **new}
    return sorted(new)


def _bounded(
    spec: Object, kind: str, place: tuple[str, str]
) -> Iterator[tuple[dict[str, Fraction], dict[str, Fraction] | None]]:
    """Yield each (requests, limits) that LimitRange items of `kind` restrict; limits=None for a claim."""
    if place == CLAIMS:
        if kind == "PersistentVolumeClaim":
            yield _values((spec.get("resources") or {}).get("requests")), None
    elif kind == "Pod":
        yield pod_resources(spec, "requests"), pod_resources(spec, "limits")
    elif kind == "Container":
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            yield _values(resources.get("requests")), _values(resources.get("limits"))


def _values(amounts: Mapping[str, Any] | None) -> dict[str, Fraction]:
    return {name: value_of(amount) for name, amount in (amounts or {}).items()}


def _violations(
    limit: Object, requests: dict[str, Fraction], ends: dict[str, Fraction] | None
) -> Iterator[str]:
    """Yield a message for each minimum, maximum or ratio of `limit` that the amounts violate.

    `requests` and `ends` are the requests and limits of a container or pod; `ends` is None for a claim.
    """
    asked, allowed = amounts_text(requests), amounts_text(ends or {})
    for name, least in sorted((limit.get("min") or {}).items()):
        head = f"minimum {name} usage per {limit['type']} is {least}"
        if name not in requests:
            yield f"{head}.  No request is specified"
        elif requests[name] < value_of(least):
            yield f"{head}, but request is {asked[name]}"
        if ends and name in ends and ends[name] < value_of(least):
            yield f"{head}, but limit is {allowed[name]}"
    for name, most in sorted((limit.get("max") or {}).items()):
        head = f"maximum {name} usage per {limit['type']} is {most}"
        for amounts, shown, what in ((ends, allowed, "limit"), (requests, asked, "request")):
            if amounts is not None and name in amounts and amounts[name] > value_of(most):
                yield f"{head}, but {what} is {shown[name]}"
        if name not in (requests if ends is None else ends):
            yield f"{head}.  No {'request' if ends is None else 'limit'} is specified"
    yield from _ratios(limit, requests, ends or {})


def _ratios(limit: Object, requests: dict[str, Fraction], ends: dict[str, Fraction]) -> Iterator[str]:
    for name, ratio in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        head = f"{name} max limit to request ratio per {limit['type']} is {ratio}, but"
        if not requests.get(name):
            yield f"{head} no request is specified or request is 0"
        elif not ends.get(name):
            yield f"{head} no limit is specified or limit is 0"
        elif (found := ends[name] / requests[name]) > value_of(ratio):
            yield f"{head} provided ratio is {float(found):.6f}"


class ResourceQuotas(Plugin):
    """Admission plugin that refuses writes above `status.hard` of a ResourceQuota (set by its controller)."""

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger

    def concerns(self, info: AdmissionInfo) -> bool:
        if info.subresource or not info.namespace or not self._ledger.quotas(info.namespace):
            return False
        return info.operation == "CREATE" or (info.operation == "UPDATE" and info.resource.stored in UPDATED)

    def check(self, info: AdmissionInfo) -> None:
        """Raise StatusError if the write would exceed a ResourceQuota."""
        assert info.obj is not None
        place = info.resource.stored
        taken = usage_of(*place, info.obj)
        before = usage_of(*place, info.old) if info.old is not None else {}
        added = {name: amount - before.get(name, 0) for name, amount in taken.items()}
        applied = [quota for quota in self._ledger.quotas(info.namespace) if counts(quota, *place, info.obj)]
        if place == PODS:
            for quota in applied:
                if text := missing_amounts(info.obj["spec"], _hard(quota)):
                    raise info.refusal(f"failed quota: {quota['metadata']['name']}: {text}")
        for quota in applied:
            used, hard = self._ledger.used(quota), _hard(quota)
            exceeded = sorted(
                name
                for name, amount in added.items()
                if amount > 0 and name in hard and used.get(name, 0) + amount > value_of(hard[name])
            )
            if exceeded:
                requested, present = amounts_text(added), amounts_text(used)
                parts = (
                    f"{title}: {','.join(f'{name}={amounts[name]}' for name in exceeded)}"
                    for title, amounts in (("requested", requested), ("used", present), ("limited", hard))
                )
                raise info.refusal(f"exceeded quota: {quota['metadata']['name']}, {', '.join(parts)}")


def _hard(quota: Object) -> dict[str, Any]:
    return (quota.get("status") or {}).get("hard") or {}
