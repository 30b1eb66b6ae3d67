"""ConfigMaps, Secrets and ServiceAccounts."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import Object, StoredStrategy, columns
from devcluster.builtin.checks import immutable, texts
from devcluster.builtin.fields import child
from devcluster.errors import FieldError, field_forbidden, field_invalid, field_required, field_too_long
from devcluster.names import config_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.kinds.strategy import Context

__all__ = ["ConfigMapStrategy", "SecretStrategy", "ServiceAccountStrategy"]

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
        """Check that the keys are file names, and the size of the data."""
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
        """Check the object, and that immutable data is unchanged."""
        return _check_unchanged_data(new, old, "data", "binaryData") + self.validate_create(new, context)

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the number of keys."""
        size = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
        return [obj["metadata"].get("name", ""), size, self.created(obj)]


class SecretStrategy(StoredStrategy):
    """The rules of secrets."""

    columns = columns("Name | Type | Data | Age")

    def default(self, obj: Object) -> None:
        """Set the type Opaque, and move stringData into data."""
        text = obj.pop("stringData", None)
        if text:
            data = child(obj, "data")
            for key, value in text.items():
                data[key] = base64.b64encode(value.encode()).decode()
        if not obj.get("type"):
            obj["type"] = "Opaque"

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check that the keys are file names, and that those of the Secret's type exist."""
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
        """Check the object, and that its type and any immutable data are unchanged."""
        wrong = immutable(new["type"], old.get("type"), "type")
        return wrong + _check_unchanged_data(new, old, "data") + self.validate_create(new, context)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Warn of a certificate or key that is none, in Go's words."""
        if new.get("type") != "kubernetes.io/tls":
            return []
        data = new.get("data") or {}
        for key, name in (("tls.crt", "certificate"), ("tls.key", "key")):
            if PEM.search(base64.b64decode(data.get(key) or "")) is None:
                return [f"tls: failed to find any PEM data in {name} input"]
        return []

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return the selectable fields: the type."""
        return {"type": obj.get("type", "")}

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the type and the number of keys."""
        size = len(obj.get("data") or ())
        return [obj["metadata"].get("name", ""), obj.get("type", ""), size, self.created(obj)]


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
