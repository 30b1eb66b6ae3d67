"""PersistentVolumes, the claims to them, and StorageClasses."""

from __future__ import annotations

from typing import Any

from devcluster.builtin.base import BuiltinStrategy, Object, StoredStrategy, child, columns, unified
from devcluster.builtin.checks import immutable, label_selector, one_of, round_up, texts, value_of
from devcluster.errors import (
    FieldError,
    field_forbidden,
    field_invalid,
    field_required,
    field_unsupported,
)
from devcluster.kinds.strategy import Context
from devcluster.names import dns_subdomain, label_key
from devcluster.types.table import choices

ACCESS_MODES = choices("core.v1.PersistentVolumeSpec.accessModes")
SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
VOLUME_MODES = choices("core.v1.PersistentVolumeSpec.volumeMode")
RECLAIM_POLICIES = choices("core.v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy")
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
ONCE_POD_ALONE = "may not use ReadWriteOncePod with other access modes"
CHANGEABLE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)
UNSET = "<unset>"
SOURCES = {
    "gcePersistentDisk": "GCEPersistentDisk",
    "awsElasticBlockStore": "AWSElasticBlockStore",
    "hostPath": "HostPath",
    "glusterfs": "Glusterfs",
    "nfs": "NFS",
    "rbd": "RBD",
    "quobyte": "Quobyte",
    "iscsi": "ISCSI",
    "flexVolume": "FlexVolume",
    "cinder": "Cinder",
    "cephfs": "CephFS",
    "fc": "FC",
    "flocker": "Flocker",
    "azureFile": "AzureFile",
    "vsphereVolume": "VsphereVolume",
    "azureDisk": "AzureDisk",
    "photonPersistentDisk": "PhotonPersistentDisk",
    "portworxVolume": "PortworxVolume",
    "scaleIO": "ScaleIO",
    "local": "Local",
    "storageos": "StorageOS",
    "csi": "CSI",
}
"""Volume sources with Go's internal names, which error messages show, in their order."""


class ClaimStrategy(BuiltinStrategy):
    """The rules of claims: one that is bound may grow, and nothing else changes."""

    columns = columns(
        "Name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age "
        "| VolumeMode*"
    )
    defaults = {"spec": {}, "spec.resources": {}, "status": {}}
    nonzero = {"spec.volumeMode": "Filesystem", "status.phase": "Pending"}

    def begin(self, new: Object, context: Context) -> None:
        new["status"] = {"phase": "Pending"}
        _protect(new, "kubernetes.io/pvc-protection")
        spec = new["spec"]
        source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
        if source and not reference:
            spec["dataSourceRef"] = dict(source)
        elif reference and not source and not reference.get("namespace"):
            spec["dataSource"] = dict(reference)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        if CLASS_ANNOTATION not in (new["metadata"].get("annotations") or {}):
            return []
        where = f"metadata.annotations[{CLASS_ANNOTATION}]"
        return [f'{where}: deprecated since v1.8; use "storageClassName" attribute instead']

    def default(self, obj: Object) -> None:
        super().default(obj)
        for part in ("limits", "requests"):
            round_up(obj["spec"]["resources"].get(part))

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        modes = spec.get("accessModes") or ()
        wrong: list[FieldError] = []
        if not modes:
            wrong.append(field_required("spec.accessModes", "at least 1 access mode is required"))
        wrong += label_selector(spec.get("selector"), "spec.selector")
        wrong += _access_modes(modes)
        amount = (spec["resources"].get("requests") or {}).get("storage")
        if amount is None:
            wrong.append(field_required("spec.resources[storage]"))
        elif value_of(amount) <= 0:
            wrong.append(field_invalid("spec.resources[storage]", amount, "must be greater than zero"))
        name = spec.get("storageClassName")
        if name:
            wrong += texts(dns_subdomain(name), "spec.storageClassName", name)
        return wrong + one_of(spec["volumeMode"], "spec.volumeMode", VOLUME_MODES)

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        wrong = self.validate_create(new, context)
        spec, before = _within(new["spec"]), _within(old["spec"])
        if not before["VolumeName"]:
            before["VolumeName"] = spec["VolumeName"]
        if before["StorageClassName"] is None and CLASS_ANNOTATION not in (
            old["metadata"].get("annotations") or {}
        ):
            before["StorageClassName"] = spec["StorageClassName"]
        if (new.get("status") or {}).get("phase") == "Bound":
            spec["Resources"]["Requests"] = before["Resources"]["Requests"]
            spec["VolumeAttributesClassName"] = before["VolumeAttributesClassName"]
        if spec != before:
            wrong.append(field_forbidden("spec", f"{CHANGEABLE}\n{unified(before, spec)}"))
        size, old_size = _storage(new["spec"]), _storage(old["spec"])
        capacity = value_of(((old.get("status") or {}).get("capacity") or {}).get("storage", 0))
        if size < old_size and size <= capacity:
            text = "field can not be less than status.capacity"
            wrong.append(field_forbidden("spec.resources.requests.storage", text))
        return wrong + immutable(new["spec"]["volumeMode"], old["spec"].get("volumeMode"), "volumeMode")

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        bound = bool(spec.get("volumeName"))
        return [
            "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", ""),
            spec.get("volumeName", ""),
            (status.get("capacity") or {}).get("storage", "0") if bound else "",
            _modes_cell(status.get("accessModes")) if bound else "",
            _class_of(obj),
            _or_unset(spec.get("volumeAttributesClassName")),
            _or_unset(spec.get("volumeMode")),
        ]


class VolumeStrategy(BuiltinStrategy):
    """The rules of volumes."""

    columns = columns(
        "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass "
        "| VolumeAttributesClass | Reason | Age | VolumeMode*"
    )
    defaults = {"spec": {}, "spec.hostPath.type": "", "status": {}}
    nonzero = {
        "spec.persistentVolumeReclaimPolicy": "Retain",
        "spec.volumeMode": "Filesystem",
        "status.phase": "Pending",
    }

    def begin(self, new: Object, context: Context) -> None:
        new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": context.now}
        _protect(new, "kubernetes.io/pv-protection")

    def prepare_status_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_status_update(new, old, context)
        status, before = child(new, "status"), old.get("status") or {}
        if status.get("phase") != before.get("phase") and (
            status.get("lastPhaseTransitionTime") == before.get("lastPhaseTransitionTime")
        ):
            status["lastPhaseTransitionTime"] = context.now

    def default(self, obj: Object) -> None:
        super().default(obj)
        round_up(obj["spec"].get("capacity"))

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        modes = spec.get("accessModes") or ()
        wrong: list[FieldError] = []
        if not modes:
            wrong.append(field_required("spec.accessModes"))
        wrong += _access_modes(modes)
        capacity = spec.get("capacity")
        if not capacity:
            wrong.append(field_required("spec.capacity"))
        if not capacity or set(capacity) != {"storage"}:
            wrong.append(field_unsupported("spec.capacity", capacity, ("storage",)))
        elif value_of(capacity["storage"]) <= 0:
            text = "must be greater than zero"
            wrong.append(field_invalid("spec.capacity[storage]", capacity["storage"], text))
        wrong += one_of(
            spec["persistentVolumeReclaimPolicy"], "spec.persistentVolumeReclaimPolicy", RECLAIM_POLICIES
        )
        sources = [name for name in SOURCES if spec.get(name) is not None]
        if not sources:
            wrong.append(field_required("spec", "must specify a volume type"))
        more = "may not specify more than 1 volume type"
        wrong += [field_forbidden(f"spec.{name}", more) for name in sources[1:]]
        if spec.get("storageClassName"):
            name = spec["storageClassName"]
            wrong += texts(dns_subdomain(name), "spec.storageClassName", name)
        return wrong + one_of(spec["volumeMode"], "spec.volumeMode", VOLUME_MODES)

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        wrong = self.validate_create(new, context)
        source, before = _source(new["spec"]), _source(old["spec"])
        if source != before:
            text = f"spec.persistentvolumesource is immutable after creation\n{unified(before, source)}"
            wrong.append(field_forbidden("spec.persistentvolumesource", text))
        return wrong + immutable(new["spec"]["volumeMode"], old["spec"].get("volumeMode"), "volumeMode")

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        claim = spec.get("claimRef")
        return [
            (spec.get("capacity") or {}).get("storage", "0"),
            _modes_cell(spec.get("accessModes")),
            spec.get("persistentVolumeReclaimPolicy", ""),
            "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", ""),
            f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
            _class_of(obj),
            _or_unset(spec.get("volumeAttributesClassName")),
            status.get("reason", ""),
            _or_unset(spec.get("volumeMode")),
        ]


class StorageClassStrategy(StoredStrategy):
    """The rules of storage classes."""

    columns = columns("Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age")

    nonzero = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    immutable = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        provisioner = new.get("provisioner", "")
        wrong: list[FieldError] = []
        if not provisioner:
            wrong.append(field_required("provisioner"))
        else:
            wrong += texts(label_key(provisioner.lower()), "provisioner", provisioner)
        wrong += one_of(new["reclaimPolicy"], "reclaimPolicy", ("Delete", "Retain"))
        modes = ("Immediate", "WaitForFirstConsumer")
        return wrong + one_of(new["volumeBindingMode"], "volumeBindingMode", modes)

    def cells(self, obj: Object) -> list[Any]:
        return [
            obj.get("provisioner", ""),
            obj.get("reclaimPolicy", "Delete"),
            obj.get("volumeBindingMode", "Immediate"),
            bool(obj.get("allowVolumeExpansion")),
        ]

    def row(self, obj: Object) -> list[Any]:
        name, *others = super().row(obj)
        marks = obj["metadata"].get("annotations") or {}
        default = any(marks.get(each) == "true" for each in DEFAULT_ANNOTATIONS)
        return [f"{name}{' (default)' if default else ''}", *others]


def _protect(obj: Object, finalizer: str) -> None:
    finalizers = obj["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, finalizer]


def _access_modes(modes: Any) -> list[FieldError]:
    wrong: list[FieldError] = [
        field_unsupported("spec.accessModes", mode, ACCESS_MODES)
        for mode in modes
        if mode not in ACCESS_MODES
    ]
    known = {mode for mode in modes if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        wrong.append(field_forbidden("spec.accessModes", ONCE_POD_ALONE))
    return wrong


def _within(spec: Object) -> Object:
    # The fields have the order and Go's internal names that error messages show.
    resources = spec.get("resources") or {}
    return {
        "AccessModes": spec.get("accessModes"),
        "Selector": spec.get("selector"),
        "Resources": {"Limits": resources.get("limits"), "Requests": resources.get("requests")},
        "VolumeName": spec.get("volumeName", ""),
        "StorageClassName": spec.get("storageClassName"),
        "VolumeMode": spec.get("volumeMode"),
        "DataSource": spec.get("dataSource"),
        "DataSourceRef": spec.get("dataSourceRef"),
        "VolumeAttributesClassName": spec.get("volumeAttributesClassName"),
    }


def _source(spec: Object) -> Object:
    return {name: _capitalized(spec.get(field)) for field, name in SOURCES.items()}


def _capitalized(source: Object | None) -> Object | None:
    return source and {f"{key[:1].upper()}{key[1:]}": value for key, value in source.items()}


def _storage(spec: Object) -> Any:
    return value_of(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))


def _modes_cell(modes: Any) -> str:
    return ",".join(short for mode, short in SHORT_MODES.items() if mode in (modes or ()))


def _class_of(obj: Object) -> str:
    annotated = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    chosen = (obj.get("spec") or {}).get("storageClassName")
    if annotated is not None:
        return str(annotated)
    return (
        str(chosen) if chosen is not None else (UNSET if obj.get("kind") == "PersistentVolumeClaim" else "")
    )


def _or_unset(value: Any) -> str:
    return UNSET if value is None else str(value)
