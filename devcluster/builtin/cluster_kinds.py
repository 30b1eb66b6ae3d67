"""Namespaces, nodes, configuration, and access."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

from devcluster.builtin.base import BuiltinStrategy, Object, PlainStrategy, StoredStrategy, child, columns
from devcluster.builtin.checks import immutable, texts
from devcluster.clock import Clock
from devcluster.errors import (
    FieldError,
    field_forbidden,
    field_invalid,
    field_required,
    field_too_long,
    field_unsupported,
)
from devcluster.kinds.strategy import Context
from devcluster.names import config_key, dns_label, dns_subdomain, path_segment

FINALIZER = "kubernetes"
LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(BuiltinStrategy):
    """The rules of namespaces: finalizers in the specification hold one until it is empty."""

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

    def cells(self, obj: Object) -> list[Any]:
        phase = (obj.get("status") or {}).get("phase", "")
        return [phase]


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
    """The rules of nodes; a node that registers itself says how it is at once."""

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

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}

    def cells(self, obj: Object) -> list[Any]:
        status = obj.get("status") or {}
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
    """The rules of config maps."""

    columns = columns("Name | Data | Age")

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        data, binary = new.get("data") or {}, new.get("binaryData") or {}
        wrong: list[FieldError] = []
        for key in data:
            wrong += texts(config_key(key), f"data[{key}]", key)
            if key in binary:
                wrong.append(field_invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in binary:
            wrong += texts(config_key(key), f"binaryData[{key}]", key)
        size = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
        return [*wrong, field_too_long("[]", MAXIMUM_SIZE)] if size > MAXIMUM_SIZE else wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        return _check_unchanged_data(new, old, "data", "binaryData") + self.validate_create(new, context)

    def cells(self, obj: Object) -> list[Any]:
        size = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
        return [size]


class SecretStrategy(StoredStrategy):
    """The rules of secrets."""

    columns = columns("Name | Type | Data | Age")

    def default(self, obj: Object) -> None:
        text = obj.pop("stringData", None)
        if text:
            data = child(obj, "data")
            for key, value in text.items():
                data[key] = base64.b64encode(value.encode()).decode()
        if not obj.get("type"):
            obj["type"] = "Opaque"

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        data, kind = new.get("data") or {}, new["type"]
        wrong: list[FieldError] = []
        for key in data:
            wrong += texts(config_key(key), f"data[{key}]", key)
        if sum(map(_decoded_size, data.values())) > MAXIMUM_SIZE:
            wrong.append(field_too_long("data", MAXIMUM_SIZE))
        annotations = new["metadata"].get("annotations") or {}
        if kind == "kubernetes.io/service-account-token" and not annotations.get(ACCOUNT):
            wrong.append(field_required(f"metadata.annotations[{ACCOUNT}]"))
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
            wrong += [field_required("data[username]"), field_required("data[password]")]
        for key in REQUIRED_KEYS.get(kind, ()):
            if key not in data or (kind == "kubernetes.io/ssh-auth" and not data[key]):
                wrong.append(field_required(f"data[{key}]"))
            elif key.startswith(".docker"):
                wrong += _docker(data[key], f"data[{key}]")
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        wrong = immutable(new["type"], old.get("type"), "type")
        return wrong + _check_unchanged_data(new, old, "data") + self.validate_create(new, context)

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

    def cells(self, obj: Object) -> list[Any]:
        size = len(obj.get("data") or ())
        return [obj.get("type", ""), size]


class ServiceAccountStrategy(StoredStrategy):
    """The rules of service accounts: there are none."""


def _check_unchanged_data(new: Object, old: Object, *fields: str) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    text = "field is immutable when `immutable` is set"
    wrong = [] if new.get("immutable") else [field_forbidden("immutable", text)]
    changed = [name for name in fields if (new.get(name) or {}) != (old.get(name) or {})]
    return wrong + [field_forbidden(name, text) for name in changed]


def _decoded_size(value: str) -> int:
    return len(value) * 3 // 4 - value[-2:].count("=")


def _docker(value: str, path: str) -> list[FieldError]:
    try:
        text = base64.b64decode(value).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        return [field_invalid(path, REDACTED, str(error))]
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        left = text[error.pos :].strip()
        why = f"invalid character {left[0]!r} looking for beginning of value" if left else ENDED
        return [field_invalid(path, REDACTED, why if text.strip() != "{" else ENDED)]
    return []


GROUP = "rbac.authorization.k8s.io"
KINDS = ("ServiceAccount", "User", "Group")


class RoleStrategy(PlainStrategy):
    """The rules of roles; `namespaced` ones are about resources alone."""

    name_rule = staticmethod(path_segment)
    create_on_update = True
    defaults = {"rules": None}

    def __init__(self, clock: Clock, *, namespaced: bool) -> None:
        super().__init__(clock)
        self._namespaced = namespaced

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        wrong: list[FieldError] = []
        for index, rule in enumerate(new.get("rules") or ()):
            wrong += _rule(rule, f"rules[{index}]", namespaced=self._namespaced)
        return wrong


class BindingStrategy(StoredStrategy):
    """The rules of bindings; a `namespaced` one may bind a role of either kind."""

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

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        role = new["roleRef"]
        wrong: list[FieldError] = []
        if role["apiGroup"] != GROUP:
            wrong.append(field_unsupported("roleRef.apiGroup", role["apiGroup"], (GROUP,)))
        if role.get("kind", "") not in self._roles:
            wrong.append(field_unsupported("roleRef.kind", role.get("kind", ""), self._roles))
        name = role.get("name", "")
        wrong += texts(path_segment(name), "roleRef.name", name) if name else [field_required("roleRef.name")]
        namespaced = len(self._roles) > 1
        for index, subject in enumerate(new.get("subjects") or ()):
            wrong += _subject(subject, f"subjects[{index}]", namespaced=namespaced)
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        wrong = self.validate_create(new, context)
        role, before = new["roleRef"], old.get("roleRef")
        if role != before:
            shown = {
                "APIGroup": role["apiGroup"],
                "Kind": role.get("kind", ""),
                "Name": role.get("name", ""),
            }
            wrong.append(field_invalid("roleRef", shown, "cannot change roleRef"))
        return wrong

    def cells(self, obj: Object) -> list[Any]:
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


def _rule(rule: Object, path: str, *, namespaced: bool) -> list[FieldError]:
    wrong: list[FieldError] = []
    if not rule.get("verbs"):
        wrong.append(field_required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            wrong.append(field_invalid(f"{path}.nonResourceURLs", urls, text))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            wrong.append(field_invalid(f"{path}.nonResourceURLs", urls, text))
        return wrong
    if not rule.get("apiGroups"):
        text = "resource rules must supply at least one api group"
        wrong.append(field_required(f"{path}.apiGroups", text))
    if not rule.get("resources"):
        text = "resource rules must supply at least one resource"
        wrong.append(field_required(f"{path}.resources", text))
    return wrong


def _subject(subject: Object, path: str, *, namespaced: bool) -> list[FieldError]:
    wrong: list[FieldError] = []
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if not name:
        wrong.append(field_required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            wrong += texts(dns_subdomain(name), f"{path}.name", name)
        if group:
            wrong.append(field_unsupported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            wrong.append(field_required(f"{path}.namespace"))
    elif kind in {"User", "Group"}:
        if group != GROUP:
            wrong.append(field_unsupported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        wrong.append(field_unsupported(f"{path}.kind", kind, KINDS))
    return wrong
