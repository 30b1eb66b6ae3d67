"""Defaults, validation and tables of Namespaces, Nodes, ConfigMaps, Secrets, ServiceAccounts, RBAC kinds."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

from devcluster.builtin.base import BuiltinStrategy, Object, PlainStrategy, StoredStrategy, child, columns
from devcluster.builtin.services import check_network
from devcluster.clock import Clock
from devcluster.kinds.field import Field
from devcluster.kinds.strategy import Context
from devcluster.names import config_key, dns_label, dns_subdomain, path_segment

FINALIZER = "kubernetes"
LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(BuiltinStrategy):
    """Strategy (defaults, table columns) of Namespaces; a namespace remains while it has spec.finalizers."""

    columns = columns("Name | Status | Age")
    name_rule = staticmethod(dns_label)
    returns_deleted = True
    waits_unless_orphaned = True
    defaults = {"spec": {}, "status": {}}
    nonzero = {"status.phase": "Active"}

    def begin(self, new: Object, context: Context) -> None:
        new["status"] = {"phase": "Active"}
        finalizers = child(new, "spec").setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            new["spec"]["finalizers"] = [*finalizers, FINALIZER]

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
        if context.subresource == "finalize":
            finalizers = (new.get("spec") or {}).get("finalizers")
            metadata = new["metadata"]
            new.clear()
            new.update(old)
            new["metadata"] = metadata
            new["spec"] = {"finalizers": finalizers} if finalizers else {}
            return
        super().prepare_update(new, old, context)
        new["spec"] = old.get("spec", {})

    def default(self, obj: Object) -> None:
        name = obj["metadata"].get("name")
        if name:
            child(obj["metadata"], "labels")[LABEL] = name
        super().default(obj)

    def holds(self, obj: Object) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers"))

    def mark_deleted(self, obj: Object) -> None:
        child(obj, "status")["phase"] = "Terminating"

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.phase": (obj.get("status") or {}).get("phase", "")}

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [status.get("phase", "")]


ROLE = "node-role.kubernetes.io/"
INFORMATION = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class NodeStrategy(BuiltinStrategy):
    """Strategy (defaults, validation, table columns) of Nodes; a create request may contain the status."""

    columns = columns(
        "Name | Status | Roles | Age | Version | Internal-IP* | External-IP* | OS-Image* | Kernel-Version* "
        "| Container-Runtime*"
    )

    def prepare_create(self, new: Object, context: Context) -> None:
        taints = child(new, "spec").setdefault("taints", [])
        if not any(each.get("key") == NOT_READY["key"] for each in taints):
            taints.append(dict(NOT_READY))

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        status = child(obj, "status")
        child(child(status, "daemonEndpoints"), "kubeletEndpoint").setdefault("Port", 0)
        information = child(status, "nodeInfo")
        for name in INFORMATION:
            information.setdefault(name, "")
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def check(self, obj: Field) -> None:
        for network in obj["spec"]["podCIDRs"]:
            check_network(network, strict=True)

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        information = status.get("nodeInfo") or {}
        addresses = {
            each.get("type"): each.get("address", "") for each in reversed(status.get("addresses") or [])
        }
        kernel = information.get("kernelVersion") or "<unknown>"
        if information.get("architecture"):
            kernel += f" ({information['architecture']})"
        return [
            _state(obj),
            ",".join(_roles(obj["metadata"].get("labels") or {})) or "<none>",
            information.get("kubeletVersion", ""),
            addresses.get("InternalIP") or "<none>",
            addresses.get("ExternalIP") or "<none>",
            information.get("osImage") or "<unknown>",
            kernel,
            information.get("containerRuntimeVersion") or "<unknown>",
        ]


def _state(node: Object) -> str:
    parts = [
        "Ready" if each.get("status") == "True" else "NotReady"
        for each in (node.get("status") or {}).get("conditions") or ()
        if each.get("type") == "Ready"
    ] or ["Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        parts.append("SchedulingDisabled")
    return ",".join(parts)


def _roles(labels: Mapping[str, str]) -> list[str]:
    named = {key.removeprefix(ROLE) for key in labels if key.startswith(ROLE)} - {""}
    return sorted(named | {value for key, value in labels.items() if key == "kubernetes.io/role" and value})


MAXIMUM_SIZE = 1024 * 1024
REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
PEM = re.compile(rb"-----BEGIN ([^-]+)-----\n[A-Za-z0-9+/=\s]+-----END \1-----")
REDACTED = "<secret contents redacted>"
ENDED = "unexpected end of JSON input"
ACCOUNT = "kubernetes.io/service-account.name"


class ConfigMapStrategy(StoredStrategy):
    """Strategy of ConfigMaps: the API server's defaults, validation and table columns."""

    columns = columns("Name | Data | Age")

    def check(self, obj: Field) -> None:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for key in data:
            entry = obj["data"].key(key, key)
            entry.check(config_key)
            if key in binary:
                entry.invalid("duplicate of key present in binaryData")
        for key in binary:
            obj["binaryData"].key(key, key).check(config_key)
        size = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
        if size > MAXIMUM_SIZE:
            Field(None, "[]", obj).too_long(MAXIMUM_SIZE)

    def check_update(self, obj: Field, old: Field) -> None:
        _check_unchanged_data(obj, old, "data", "binaryData")
        self.check(obj)

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [len(obj.get("data") or ()) + len(obj.get("binaryData") or ())]


class SecretStrategy(StoredStrategy):
    """Strategy of Secrets: the API server's defaults, validation and table columns."""

    columns = columns("Name | Type | Data | Age")

    def default(self, obj: Object) -> None:
        text = obj.pop("stringData", None)
        if text:
            data = child(obj, "data")
            for key, value in text.items():
                data[key] = base64.b64encode(value.encode()).decode()
        if not obj.get("type"):
            obj["type"] = "Opaque"

    def check(self, obj: Field) -> None:
        data, kind = obj["data"], obj.get("type")
        given = data.value or {}
        for key in given:
            data.key(key, key).check(config_key)
        if sum(map(_decoded_size, given.values())) > MAXIMUM_SIZE:
            data.too_long(MAXIMUM_SIZE)
        annotations = obj["metadata"]["annotations"]
        if kind == "kubernetes.io/service-account-token" and not annotations.get(ACCOUNT):
            annotations.key(ACCOUNT, None).required()
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & given.keys():
            data.key("username", None).required()
            data.key("password", None).required()
        for key in REQUIRED_KEYS.get(kind, ()):
            entry = data.key(key, given.get(key))
            if key not in given or (kind == "kubernetes.io/ssh-auth" and not entry):
                entry.required()
            elif key.startswith(".docker"):
                _check_docker(entry)

    def check_update(self, obj: Field, old: Field) -> None:
        obj["type"].check_unchanged(old.get("type"))
        _check_unchanged_data(obj, old, "data")
        self.check(obj)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        if new.get("type") != "kubernetes.io/tls":
            return []
        data = new.get("data") or {}
        for key, name in (("tls.crt", "certificate"), ("tls.key", "key")):
            if PEM.search(base64.b64decode(data.get(key) or "")) is None:
                return [f"tls: failed to find any PEM data in {name} input"]
        return []

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"type": obj.get("type", "")}

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [obj.get("type", ""), len(obj.get("data") or ())]


class ServiceAccountStrategy(StoredStrategy):
    """Strategy (defaults, table columns) of ServiceAccounts; only their metadata is validated."""


def _check_unchanged_data(obj: Field, old: Field, *names: str) -> None:
    if not old["immutable"]:
        return
    changed = [name for name in names if (obj.get(name) or {}) != (old.get(name) or {})]
    for name in (*(() if obj["immutable"] else ("immutable",)), *changed):
        obj[name].forbidden("field is immutable when `immutable` is set")


def _decoded_size(value: str) -> int:
    return len(value) * 3 // 4 - value[-2:].count("=")


def _check_docker(entry: Field) -> None:
    try:
        # Go looks at bytes, and shows each as a character.
        json.loads(base64.b64decode(entry.value).decode("latin-1"), parse_int=float)
    except RecursionError:
        entry.invalid("exceeded max depth", REDACTED)
    except json.JSONDecodeError as error:
        left = error.doc[error.pos :].strip()
        why = f"invalid character {left[0]!r} looking for beginning of value" if left else ENDED
        entry.invalid(why if error.doc.strip() != "{" else ENDED, REDACTED)
    except binascii.Error as error:
        entry.invalid(str(error), REDACTED)


GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(PlainStrategy):
    """Strategy (defaults, validation) of ClusterRoles or, if `namespaced`, of Roles (no nonResourceURLs)."""

    name_rule = staticmethod(path_segment)
    create_on_update = True
    defaults = {"rules": None}

    def __init__(self, clock: Clock, *, namespaced: bool) -> None:
        super().__init__(clock)
        self._namespaced = namespaced

    def check(self, obj: Field) -> None:
        for rule in obj["rules"]:
            _check_rule(rule, namespaced=self._namespaced)


class BindingStrategy(StoredStrategy):
    """Strategy (defaults, validation, columns) of ClusterRoleBindings or, if `namespaced`, RoleBindings."""

    columns = columns("Name | Role | Age | Users* | Groups* | ServiceAccounts*")
    name_rule = staticmethod(path_segment)
    create_on_update = True
    defaults = {"roleRef": {}}
    nonzero = {"roleRef.apiGroup": GROUP}

    def __init__(self, clock: Clock, *, namespaced: bool) -> None:
        super().__init__(clock)
        self._roles = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def default(self, obj: Object) -> None:
        super().default(obj)
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in {"User", "Group"} and not subject.get("apiGroup"):
                subject["apiGroup"] = GROUP

    def check(self, obj: Field) -> None:
        role = obj["roleRef"]
        role["apiGroup"].any_of((GROUP,))
        role.at("kind", "").any_of(self._roles)
        role["name"].check_required(path_segment)
        for subject in obj["subjects"]:
            _check_subject(subject, namespaced=len(self._roles) > 1)

    def check_update(self, obj: Field, old: Field) -> None:
        self.check(obj)
        role = obj["roleRef"]
        if role.value != old.get("roleRef"):
            shown = {name: role.get(name[0].lower() + name[1:], "") for name in ("Kind", "Name")}
            role.invalid("cannot change roleRef", {"APIGroup": role.get("apiGroup"), **shown})

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        role = obj.get("roleRef") or {}
        subjects = obj.get("subjects") or ()
        accounts = [
            f"{each.get('namespace', '')}/{each.get('name', '')}"
            for each in subjects
            if each.get("kind") == "ServiceAccount"
        ]
        people = [
            ", ".join(each.get("name", "") for each in subjects if each.get("kind") == kind)
            for kind in ("User", "Group")
        ]
        shown = f"{role.get('kind', '')}/{role.get('name', '')}"
        return [shown, *people, ", ".join(accounts)]


def _check_rule(rule: Field, *, namespaced: bool) -> None:
    urls = rule["nonResourceURLs"]
    if not rule["verbs"]:
        rule["verbs"].required("verbs must contain at least one value")
    if urls:
        if namespaced:
            urls.invalid("namespaced rules cannot apply to non-resource URLs")
        if rule["apiGroups"] or rule["resources"] or rule["resourceNames"]:
            urls.invalid("rules cannot apply to both regular resources and non-resource URLs")
        return
    if not rule["apiGroups"]:
        rule["apiGroups"].required("resource rules must supply at least one api group")
    if not rule["resources"]:
        rule["resources"].required("resource rules must supply at least one resource")


def _check_subject(subject: Field, *, namespaced: bool) -> None:
    name, kind, group = subject["name"], subject.at("kind", ""), subject.at("apiGroup", "")
    if not name:
        name.required()
    if kind.value == "ServiceAccount":
        name.check_given(dns_subdomain)
        group.any_of(("",))
        if not namespaced and not subject["namespace"]:
            subject["namespace"].required()
    elif kind.value in {"User", "Group"}:
        group.any_of((GROUP,))
    else:
        kind.unsupported(("ServiceAccount", "User", "Group"))
