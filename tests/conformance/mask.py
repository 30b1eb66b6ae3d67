"""Replaces what differs between two servers although they agree: identities, versions, times, addresses."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["Mask"]

UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
MICRO_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
CLUSTER_IP = re.compile(r"\b10\.96\.\d+\.\d+\b")
POD_IP = re.compile(r"\b10\.(?!96\b)\d+\.\d+\.\d+\b")
NODE_PORT = range(30000, 32768)


class Mask:
    """One conversation's: what was the same stays the same, numbered in the order of appearance."""

    def __init__(self, names: dict[str, str]) -> None:
        """`names` are texts to replace, with what to put in their place."""
        self._names = dict(names)
        self._uids: dict[str, str] = {}
        self._versions: dict[str, dict[str, str]] = {}

    def value(self, value: Any) -> Any:
        """A JSON value, masked."""
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, str):
            return self.text(value)
        return value

    def text(self, text: str) -> str:
        """A text, masked."""
        for name, shown in self._names.items():
            text = text.replace(name, shown)
        text = UID.sub(lambda found: self._uid(found[0]), text)
        text = TIME.sub("<time>", MICRO_TIME.sub("<microtime>", text))
        return POD_IP.sub("<pod ip>", CLUSTER_IP.sub("<cluster ip>", text))

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        masked = {self.text(key): self.value(each) for key, each in value.items()}
        version = value.get("resourceVersion")
        if isinstance(version, str) and version.isdecimal() and version != "0":
            uid = value.get("uid")
            masked["resourceVersion"] = self._version(uid, version) if uid else "<version>"
        if isinstance(port := value.get("nodePort"), int) and port in NODE_PORT:
            masked["nodePort"] = "<node port>"
        prefix = value.get("generateName")
        if isinstance(prefix, str) and isinstance(name := value.get("name"), str) and name != prefix:
            masked["name"] = self.text(prefix) + "<random>"
            self._names.setdefault(name, masked["name"])
        if isinstance(value.get("continue"), str) and value["continue"]:
            masked["continue"] = "<continue>"
        return masked

    def _uid(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"<uid {len(self._uids) + 1}>")

    def _version(self, uid: str, version: str) -> str:
        seen = self._versions.setdefault(uid, {})
        return seen.setdefault(version, f"<version {len(seen) + 1}>")
