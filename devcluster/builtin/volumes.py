"""Defaults, validation and tables of PersistentVolumes, PersistentVolumeClaims and StorageClasses."""

from __future__ import annotations

from typing import Any

from devcluster.builtin.base import BuiltinStrategy, Object, StoredStrategy, child, columns, unified
from devcluster.builtin.checks import check_selector, round_up, value_of
from devcluster.kinds.field import Field
from devcluster.kinds.strategy import Context
from devcluster.names import dns_subdomain, label_key
from devcluster.types.table import choices

SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
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
"""Volume sources in the order of Go's structs, with Go's internal names for error messages."""


class ClaimStrategy(BuiltinStrategy):
    """Strategy (defaults, validation) of PersistentVolumeClaims; `CHANGEABLE` names the mutable fields."""

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

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        if not spec["accessModes"]:
            spec["accessModes"].required("at least 1 access mode is required")
        check_selector(spec["selector"])
        _check_modes(spec["accessModes"])
        amount = spec["resources"].key("storage", spec["resources"]["requests"].get("storage"))
        if not amount.is_set:
            amount.required()
        elif value_of(amount.value) <= 0:
            amount.invalid("must be greater than zero")
        spec["storageClassName"].check_given(dns_subdomain)
        spec["volumeMode"].one_of(choices("core.v1.PersistentVolumeSpec.volumeMode"))

    def check_update(self, obj: Field, old: Field) -> None:
        self.check(obj)
        spec, before = _within(obj.get("spec")), _within(old.get("spec"))
        if not before["VolumeName"]:
            before["VolumeName"] = spec["VolumeName"]
        if before["StorageClassName"] is None and CLASS_ANNOTATION not in (
            old["metadata"].get("annotations") or {}
        ):
            before["StorageClassName"] = spec["StorageClassName"]
        if obj["status"].get("phase") == "Bound":
            spec["Resources"]["Requests"] = before["Resources"]["Requests"]
            spec["VolumeAttributesClassName"] = before["VolumeAttributesClassName"]
        if spec != before:
            obj["spec"].forbidden(f"{CHANGEABLE}\n{unified(before, spec)}")
        size, old_size = (
            value_of(each.at("spec.resources.requests.storage", 0).value) for each in (obj, old)
        )
        if size < old_size and size <= value_of(old.at("status.capacity.storage", 0).value):
            text = "field can not be less than status.capacity"
            obj.at("spec.resources.requests.storage").forbidden(text)
        _check_mode_unchanged(obj, old)

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
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
    """Strategy of PersistentVolumes: the API server's defaults, validation and table columns."""

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

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        if not spec["accessModes"]:
            spec["accessModes"].required()
        _check_modes(spec["accessModes"])
        capacity = spec["capacity"]
        if not capacity:
            capacity.required()
        if set(capacity.value or ()) != {"storage"}:
            capacity.unsupported(("storage",))
        elif value_of(capacity.get("storage")) <= 0:
            capacity.key("storage", capacity.get("storage")).invalid("must be greater than zero")
        spec["persistentVolumeReclaimPolicy"].one_of(
            choices("core.v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy")
        )
        sources = spec.given(*SOURCES)
        if not sources:
            spec.required("must specify a volume type")
        for name in sources[1:]:
            spec[name].forbidden("may not specify more than 1 volume type")
        spec["storageClassName"].check_given(dns_subdomain)
        spec["volumeMode"].one_of(choices("core.v1.PersistentVolumeSpec.volumeMode"))

    def check_update(self, obj: Field, old: Field) -> None:
        self.check(obj)
        source, before = _source(obj.get("spec")), _source(old.get("spec"))
        if source != before:
            text = f"spec.persistentvolumesource is immutable after creation\n{unified(before, source)}"
            obj["spec"]["persistentvolumesource"].forbidden(text)
        _check_mode_unchanged(obj, old)

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
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
    """Strategy of StorageClasses: the API server's defaults, validation and table columns."""

    columns = columns("Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age")

    nonzero = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    immutable = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")

    def check(self, obj: Field) -> None:
        provisioner = obj["provisioner"]
        if not provisioner:
            provisioner.required()
        for text in label_key(provisioner.value.lower()) if provisioner else ():
            provisioner.invalid(text)
        obj["reclaimPolicy"].one_of(("Delete", "Retain"))
        obj["volumeBindingMode"].one_of(("Immediate", "WaitForFirstConsumer"))

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
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


def _check_modes(modes: Field) -> None:
    known, given = choices("core.v1.PersistentVolumeSpec.accessModes"), {*(modes.value or ())}
    for mode in modes:
        if mode.value not in known:
            modes.unsupported(known, mode.value)
    if "ReadWriteOncePod" in given and len(given.intersection(known)) > 1:
        modes.forbidden("may not use ReadWriteOncePod with other access modes")


def _check_mode_unchanged(obj: Field, old: Field) -> None:
    Field(obj["spec"].get("volumeMode"), "volumeMode", obj).check_unchanged(old["spec"].get("volumeMode"))


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
