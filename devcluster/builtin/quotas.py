"""Usage of ResourceQuotas: of a single object, and the sum for a namespace."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
import orjson

from devcluster.builtin.checks import quantity_text, value_of
from devcluster.builtin.pods import pod_resources, quality_of_service
from devcluster.errors import qualified
from devcluster.storage.records import Change, Key, Stored
from devcluster.storage.store import Store


class _Container(msgspec.Struct, rename="camel", frozen=True):
    """Fields of a container that matter for quotas."""

    resources: msgspec.Raw = msgspec.Raw(b"{}")
    restart_policy: str = ""


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decoder = msgspec.json.Decoder(_Pod)

Object = dict[str, Any]
Amounts = Mapping[str, Fraction]

QUOTAS = ("", "resourcequotas")
PODS = ("", "pods")
DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
COUNTED = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)
"""Resources whose objects a quota also counts by the resource's plain name."""
COMPUTE = ("cpu", "ephemeral-storage", "memory")
REQUIRED = frozenset({"cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"})
"""Amounts that each container must specify if a quota limits them."""
MEASURED = frozenset({("", "persistentvolumeclaims"), ("", "pods"), ("", "services")})
CLASS = ".storageclass.storage.k8s.io/"
BYTES = ("memory", "storage", "hugepages")


def usage_of(group: str, plural: str, obj: Object) -> dict[str, Fraction]:
    """Return the amounts of each quota resource that an object uses, such as `pods` or `requests.cpu`."""
    used = {f"count/{qualified(group, plural)}": Fraction(1)}
    if group:
        return used
    if plural in COUNTED:
        used[plural] = Fraction(1)
    spec = obj.get("spec") or {}
    if plural == "pods" and (obj.get("status") or {}).get("phase") not in {"Failed", "Succeeded"}:
        used |= _pod_usage(spec)
    elif plural == "services":
        used |= _service_usage(spec)
    elif plural == "persistentvolumeclaims":
        storage = value_of(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))
        used["requests.storage"] = storage
        if name := spec.get("storageClassName"):
            used |= {f"{name}{CLASS}requests.storage": storage, f"{name}{CLASS}{plural}": Fraction(1)}
    return used


def _pod_usage(spec: Object) -> dict[str, Fraction]:
    used = {"pods": Fraction(1)}
    for name, amount in pod_resources(spec, "requests").items():
        used[f"requests.{name}"] = amount
        if name in COMPUTE or name.startswith("hugepages-"):
            used[name] = amount
    limits = pod_resources(spec, "limits")
    return used | {f"limits.{name}": amount for name, amount in limits.items() if name in COMPUTE}


def _service_usage(spec: Object) -> dict[str, Fraction]:
    kind, ports = spec.get("type"), Fraction(len(spec.get("ports") or ()))
    balanced = kind == "LoadBalancer"
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = Fraction(sum(bool(each.get("nodePort")) for each in spec.get("ports") or ()))
    return {
        "services.nodeports": ports if balanced or kind == "NodePort" else Fraction(0),
        "services.loadbalancers": Fraction(balanced),
    }


def counts(quota: Object, group: str, plural: str, obj: Object) -> bool:
    """Return whether the object matches all scopes of the quota; only pods can match scopes."""
    spec = quota["spec"]
    scopes = [{"scopeName": each, "operator": "Exists"} for each in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return not scopes or ((group, plural) == ("", "pods") and all(_in_scope(each, obj) for each in scopes))


def _in_scope(scope: Object, pod: Object) -> bool:
    spec, name = pod.get("spec") or {}, scope["scopeName"]
    if name in {"BestEffort", "NotBestEffort"}:
        return bool((quality_of_service(spec) == "BestEffort") == (name == "BestEffort"))
    if name in {"Terminating", "NotTerminating"}:
        return bool((spec.get("activeDeadlineSeconds") is not None) == (name == "Terminating"))
    if name == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec)
    if name != "PriorityClass":
        return False
    value, values = spec.get("priorityClassName") or "", scope.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": bool(value),
        "DoesNotExist": not value,
    }[scope["operator"]]


def _crosses_namespaces(spec: Object) -> bool:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        terms += [
            each["podAffinityTerm"]
            for each in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        ]
        if any(each.get("namespaces") or each.get("namespaceSelector") is not None for each in terms):
            return True
    return False


def missing_amounts(spec: Object, limited: Mapping[str, Any]) -> str:
    """Return the message about containers that lack a limit or request which a quota requires, or ""."""
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        named = {
            *requests,
            *(f"requests.{each}" for each in requests),
            *(f"limits.{each}" for each in limits),
        }
        for name in (limited.keys() & REQUIRED) - named:
            missing.setdefault(name, set()).add(container["name"])
    listed = [f"{name} for: {','.join(sorted(names))}" for name, names in sorted(missing.items())]
    return f"must specify {'; '.join(listed)}" if listed else ""


def amounts_text(amounts: Amounts) -> dict[str, str]:
    """Return the amounts as quantity texts; amounts of bytes have binary suffixes."""
    return {
        name: quantity_text(amount, binary=any(each in name for each in BYTES))
        for name, amount in amounts.items()
    }


class QuotaLedger:
    """Ledger of the usage in each namespace that has a quota, updated with each change of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._quotas: dict[str, dict[str, Object]] = {}
        """The quotas, by namespace and name."""
        self._used: dict[tuple[str, str], dict[str, Fraction]] = {}
        for stored in store.select(*QUOTAS):
            self._open(stored.key, stored.decode())
        store.subscribe(self._follow)

    def quotas(self, namespace: str) -> list[Object]:
        """Return the quotas of a namespace; the caller must not change these objects."""
        return list(self._quotas.get(namespace, {}).values())

    def used(self, quota: Object) -> dict[str, Fraction]:
        """Return the namespace's usage of the resources in a quota, without resources of unknown kinds."""
        spec, metadata = quota["spec"], quota["metadata"]
        used = self._used.get((metadata["namespace"], metadata["name"]), {})
        return {name: used.get(name, Fraction(0)) for name in spec.get("hard") or () if self._is_known(name)}

    def _is_known(self, name: str) -> bool:
        plural, _, group = name.removeprefix("count/").partition(".")
        foreign = name.startswith("count/") and "." in group and not group.endswith(".k8s.io")
        return not foreign or self._store.get(Key(*DEFINITIONS, "", f"{plural}.{group}")) is not None

    def _follow(self, change: Change) -> None:
        key = change.key
        if key[:2] == QUOTAS:
            self._follow_quota(change)
        quotas = self._quotas.get(key.namespace)
        if not quotas:
            return
        for sign, stored in ((-1, change.old), (1, change.new)):
            if stored is None:
                continue
            for name, quota in quotas.items():
                is_new = change.old is None and key == Key(*QUOTAS, key.namespace, name)
                # A new quota has already counted itself here.
                if not is_new and _counts_stored(quota, stored):
                    _add(self._used[key.namespace, name], _stored_usage(stored), sign)

    def _follow_quota(self, change: Change) -> None:
        key, new = change.key, change.new
        named = self._quotas.get(key.namespace, {})
        if new is None:
            named.pop(key.name, None)
            self._used.pop((key.namespace, key.name), None)
            if not named:
                self._quotas.pop(key.namespace, None)
            return
        quota, known = new.decode(), named.get(key.name)
        if known is not None and known["spec"] == quota["spec"]:
            named[key.name] = quota
        else:
            self._open(key, quota)

    def _open(self, key: Key, quota: Object) -> None:
        """Start to count the usage in the namespace of a new quota."""
        tally: dict[int, tuple[Mapping[str, Fraction], int]] = {}
        for place in self._store.resources():
            for stored in self._store.select(*place, key.namespace):
                if _counts_stored(quota, stored):
                    usage = _stored_usage(stored)
                    tally[id(usage)] = (usage, tally.get(id(usage), (usage, 0))[1] + 1)
        used: dict[str, Fraction] = {}
        for usage, number in tally.values():
            _add(used, usage, number)
        self._quotas.setdefault(key.namespace, {})[key.name] = quota
        self._used[key.namespace, key.name] = used


def _add(used: dict[str, Fraction], usage: Mapping[str, Fraction], number: int) -> None:
    for name, amount in usage.items():
        used[name] = used.get(name, Fraction(0)) + number * amount


def _counts_stored(quota: Object, stored: Stored) -> bool:
    if not quota["spec"].get("scopes") and not quota["spec"].get("scopeSelector"):
        return True
    place = stored.key[:2]
    return place == PODS and counts(quota, *place, stored.decode())


def _stored_usage(stored: Stored) -> Mapping[str, Fraction]:
    """Return the usage of a stored object; the usage of pods with equal templates is cached."""
    place = stored.key[:2]
    if place == PODS:
        pod = _decoder.decode(stored.data)
        parts = ((bytes(each.resources), each.restart_policy) for each in pod.spec.containers)
        first = ((bytes(each.resources), each.restart_policy) for each in pod.spec.init_containers)
        return _pod_usage_of(tuple(parts), tuple(first), pod.status.phase)
    return usage_of(*place, stored.decode() if place in MEASURED else {})


@functools.lru_cache(maxsize=1024)
def _pod_usage_of(
    containers: tuple[tuple[bytes, str], ...], first: tuple[tuple[bytes, str], ...], phase: str
) -> Mapping[str, Fraction]:
    spec = {
        field: [
            {"resources": orjson.loads(resources), "restartPolicy": policy} for resources, policy in listed
        ]
        for field, listed in (("containers", containers), ("initContainers", first))
    }
    return usage_of(*PODS, {"spec": spec, "status": {"phase": phase}})
