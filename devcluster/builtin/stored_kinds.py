"""Kinds that are served from the table of types alone: they are stored, and nothing acts on them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from devcluster.builtin.base import BuiltinStrategy, Object, columns
from devcluster.builtin.fields import child
from devcluster.clock import Clock

__all__ = ["STORED_KINDS", "StoredKind", "StoredKindStrategy"]

Cell = Callable[[Object], Any]
"""Returns the content of a column between the name and the age."""


@dataclasses.dataclass(frozen=True, slots=True)
class StoredKind:
    """A kind as discovery and tables show it."""

    group: str
    kind: str
    columns: str
    cells: tuple[Cell, ...] = ()
    short: str = ""
    categories: tuple[str, ...] = ()
    namespaced: bool = False
    subresources: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Defaults by path, where the object above is there; `*` stands for each item of a list."""
    nonzero: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Defaults of numbers that decoding has set to 0, by path."""
    has_generation: bool = False


class StoredKindStrategy(BuiltinStrategy):
    """The strategy of such a kind."""

    def __init__(self, clock: Clock, kind: StoredKind) -> None:
        """Set up the strategy; `clock` is for the ages in tables."""
        super().__init__(clock)
        self.columns = columns(kind.columns)
        self.status_fields = ("status",) if "status" in kind.subresources else ()
        self.has_generation = kind.has_generation
        self._kind = kind

    def default(self, obj: Object) -> None:
        """Fill in an empty status, and the defaults."""
        if self.status_fields:
            child(obj, "status")
        for path, value in self._kind.defaults.items():
            _fill(obj, path.split("."), value, (None,))
        for path, value in self._kind.nonzero.items():
            _fill(obj, path.split("."), value, (None, 0))

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the age in its column."""
        found = iter([cell(obj) for cell in self._kind.cells])
        shown = {"Name": obj["metadata"].get("name", ""), "Age": self.created(obj)}
        if "Created At" in self._kind.columns:
            shown["Created At"] = obj["metadata"].get("creationTimestamp")
        return [shown[each.name] if each.name in shown else next(found) for each in self.columns]


def _fill(value: Any, path: list[str], default: Any, unset: tuple[Any, ...]) -> None:
    name, *rest = path
    if name == "*":
        for each in value:
            _fill(each, rest, default, unset)
    elif not rest:
        if value.get(name) in unset:
            value[name] = copy.deepcopy(default)
    elif value.get(name) is not None:
        _fill(value[name], rest, default, unset)


def _at(path: str, absent: Any = "<none>") -> Cell:
    """Return a cell with the value at a path such as `spec.handler`."""

    def cell(obj: Object) -> Any:
        value: Any = obj
        for name in path.split("."):
            value = (value or {}).get(name)
        return absent if value is None else value

    return cell


def _joined(path: str, absent: str = "<none>") -> Cell:
    return lambda obj: ",".join(_at(path, ())(obj)) or absent


def _token_audiences(obj: Object) -> str:
    return ",".join(each.get("audience", "") for each in _at("spec.tokenRequests", ())(obj)) or "<unset>"


def _parent(obj: Object) -> str:
    parent = _at("spec.parentRef", {})(obj)
    kind = ".".join(filter(None, (parent.get("resource"), parent.get("group"))))
    return "/".join(filter(None, (kind, parent.get("namespace"), parent.get("name")))) or "<none>"


def _service(obj: Object) -> str:
    service = _at("spec.service", {})(obj)
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _availability(obj: Object) -> str:
    conditions = _at("status.conditions", ())(obj)
    found = next((each for each in conditions if each.get("type") == "Available"), None)
    if found is None:
        return "Unknown"
    status = str(found.get("status", ""))
    return status if status == "True" else f"{status} ({found.get('reason', '')})"


def _state(obj: Object) -> str:
    """Return the state of a request for a certificate."""
    conditions = {each.get("type") for each in _at("status.conditions", ())(obj)}
    state = next((each for each in ("Denied", "Approved", "Failed") if each in conditions), "Pending")
    return f"{state},Issued" if _at("status.certificate", "")(obj) else state


_STORAGE = "storage.k8s.io"
_STATUS = ("status",)

STORED_KINDS = (
    StoredKind(
        "apiregistration.k8s.io",
        "APIService",
        "Name | Service | Available | Age",
        (_service, _availability),
        defaults={"spec.service.port": 443},
        categories=("api-extensions",),
        subresources=_STATUS,
    ),
    StoredKind(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "Name | Age | SignerName | Requestor | RequestedDuration | Condition",
        (
            _at("spec.signerName"),
            _at("spec.username", ""),
            _at("spec.expirationSeconds"),
            _state,
        ),
        short="csr",
        subresources=("approval", "status"),
        defaults={"spec.usages": ["digital signature", "key encipherment"]},
    ),
    StoredKind(
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        "Name | PriorityLevel | MatchingPrecedence | DistinguisherMethod | Age | MissingPL",
        (
            _at("spec.priorityLevelConfiguration.name"),
            lambda obj: str(_at("spec.matchingPrecedence")(obj)),
            _at("spec.distinguisherMethod.type"),
            lambda _: "?",
        ),
        subresources=_STATUS,
        nonzero={"spec.matchingPrecedence": 1000},
        has_generation=True,
    ),
    StoredKind(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        "Name | Type | NominalConcurrencyShares | Queues | HandSize | QueueLengthLimit | Age",
        (
            _at("spec.type"),
            _at("spec.limited.nominalConcurrencyShares"),
            _at("spec.limited.limitResponse.queuing.queues"),
            _at("spec.limited.limitResponse.queuing.handSize"),
            _at("spec.limited.limitResponse.queuing.queueLengthLimit"),
        ),
        defaults={
            "spec.limited.nominalConcurrencyShares": 30,
            "spec.limited.lendablePercent": 0,
        },
        nonzero={
            "spec.limited.limitResponse.queuing.queues": 64,
            "spec.limited.limitResponse.queuing.handSize": 8,
            "spec.limited.limitResponse.queuing.queueLengthLimit": 50,
        },
        subresources=_STATUS,
        has_generation=True,
    ),
    StoredKind("networking.k8s.io", "IPAddress", "Name | ParentRef", (_parent,), short="ip"),
    StoredKind(
        "networking.k8s.io",
        "ServiceCIDR",
        "Name | CIDRs | Age",
        (_joined("spec.cidrs"),),
        subresources=_STATUS,
    ),
    StoredKind("node.k8s.io", "RuntimeClass", "Name | Handler | Age", (_at("handler"),)),
    StoredKind(
        _STORAGE,
        "CSIDriver",
        "Name | AttachRequired? | PodInfoOnMount? | StorageCapacity? | TokenRequests | RequiresRepublish?"
        " | Modes | Age",
        (
            _at("spec.attachRequired"),
            _at("spec.podInfoOnMount"),
            _at("spec.storageCapacity"),
            _token_audiences,
            _at("spec.requiresRepublish"),
            _joined("spec.volumeLifecycleModes"),
        ),
        defaults={
            "spec.attachRequired": True,
            "spec.podInfoOnMount": False,
            "spec.storageCapacity": False,
            "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
            "spec.volumeLifecycleModes": ["Persistent"],
            "spec.requiresRepublish": False,
            "spec.seLinuxMount": False,
        },
    ),
    StoredKind(
        _STORAGE,
        "CSINode",
        "Name | Drivers# | Age",
        (lambda obj: len(_at("spec.drivers", ())(obj)),),
        defaults={"spec.drivers.*.topologyKeys": None},
    ),
    StoredKind(_STORAGE, "CSIStorageCapacity", "Name | Created At@", namespaced=True),
    StoredKind(
        _STORAGE,
        "VolumeAttachment",
        "Name | Attacher | PV | Node | Attached? | Age",
        (
            _at("spec.attacher"),
            _at("spec.source.persistentVolumeName", ""),
            _at("spec.nodeName"),
            _at("status.attached"),
        ),
        defaults={"status.attached": False},
        subresources=_STATUS,
    ),
    StoredKind(
        _STORAGE, "VolumeAttributesClass", "Name | DriverName | Age", (_at("driverName"),), short="vac"
    ),
)
