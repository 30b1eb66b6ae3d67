"""Replaces values that differ between equivalent servers: UIDs, versions, times and addresses."""

from __future__ import annotations

import re
from typing import Any

UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
NODE_PORT = range(30000, 32768)
# The characters of generated names and hashes.
MADE_UP = "[bcdfghjklmnpqrstvwxz2456789]"
TEXTS = [
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"), "<microtime>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"\b10\.96\.\d+\.\d+\b"), "<cluster ip>"),
    (re.compile(r"\b10\.(?!96\b)\d+\.\d+\.\d+\b"), "<pod ip>"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r":3[0-2]\d{3}(?=/TCP|/UDP)"), ":<node port>"),
    (re.compile(rf"-{MADE_UP}{{8,10}}\b"), "-<hash>"),
    (re.compile(rf"-{MADE_UP}{{5}}\b"), "-<random>"),
    (re.compile(r"(resourceVersion[\\\"]*: ?[\\\"]*)\d+"), r"\1<version>"),
    (re.compile(r"\bnode-[0-2]\b"), "<node>"),
    (re.compile(r"in record \(\d+\)"), "in record (<version>)"),
    (re.compile(r"\beyJ[\w-]+\.eyJ[\w-]+\.[\w-]+"), "<token>"),
    (re.compile(r"JTI=[0-9a-f-]{36}|JTI=<uid \d+>"), "JTI=<id>"),
    (re.compile(r"X509SHA256=[0-9a-f]{64}"), "X509SHA256=<digest>"),
    (re.compile(r"-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----\n?", re.DOTALL), "<certificate>"),
]
# A LimitRange's refusals are in the random order of a Go map.
REFUSALS = re.compile(r"(is forbidden: )\[([^][]*)\]")
# Keyed by field name.
SHOWN = {"continue": "<continue>", "pod-template-hash": "<hash>", "storageVersionHash": "<hash>"}
AGE = re.compile(r"\d+m?s|\d{3,}d|\d+y(\d+d)?")
CONTROLLERS = "kube-controller-manager"
REVISION = "deployment.kubernetes.io/revision"


class Mask:
    """Replacer of varying values in one sequence of answers: equal values become equal numbers."""

    def __init__(
        self,
        names: dict[str, str],
        *,
        without_controllers: bool = False,
        without_managers: bool = False,
        unversioned: bool = False,
    ) -> None:
        """Create a mask; `names` maps texts to their replacements.

        `without_controllers` leaves out the controllers' writes to workloads, because their times vary.
        `without_managers` leaves out managedFields, because the order of the writers varies. `unversioned`
        replaces each resourceVersion by the same text, because the number of writes varies.
        """
        self._names = dict(names)
        self._uids: dict[str, str] = {}
        self._versions: dict[str, dict[str, str]] = {}
        self._without_controllers = without_controllers
        self._without_managers = without_managers
        self._unversioned = unversioned

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, str):
            return self.text(value)
        return value

    def text(self, text: str) -> str:
        for name, shown in self._names.items():
            text = text.replace(name, shown)
        text = UID.sub(lambda found: self._uid(found[0]), text)
        for pattern, shown in TEXTS:
            text = pattern.sub(shown, text)
        return REFUSALS.sub(lambda found: f"{found[1]}[{', '.join(sorted(found[2].split(', ')))}]", text)

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        if self._without_controllers:
            value = _without_controllers(value)
        if self._without_managers:
            value = {key: each for key, each in value.items() if key != "managedFields"}
        if fields := value.get("managedFields"):
            # The server sorts entries by seconds, so entries of the same second have no order.
            value = {**value, "managedFields": sorted(fields, key=_place)}
        masked = {self.text(key): self.value(each) for key, each in value.items()}
        version = value.get("resourceVersion")
        if isinstance(version, str) and version.isdecimal() and version != "0":
            uid = None if self._without_controllers else value.get("uid")
            masked["resourceVersion"] = self._version(uid, version) if uid else "<version>"
            if self._unversioned:
                masked["resourceVersion"] = "<version>"
        if isinstance(port := value.get("nodePort"), int) and port in NODE_PORT:
            masked["nodePort"] = "<node port>"
        masked |= {name: shown for name, shown in SHOWN.items() if value.get(name)}
        if isinstance(value.get("userInfo"), dict) and "oldObject" in value:  # the administrator in a review
            masked["userInfo"] = "<user>"
        if isinstance(cells := value.get("cells"), list):
            masked["cells"] = ["<age>" if AGE.fullmatch(str(cell)) else cell for cell in self.value(cells)]
        for column in masked.get("columnDefinitions") or ():
            # Descriptions by the real server, which devcluster does not have.
            column["description"] = "<description>"
        if value.get("kind") == "Status" and value.get("reason") == "Invalid":
            sort_causes(masked)
        return masked

    def _uid(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"<uid {len(self._uids) + 1}>")

    def _version(self, uid: str, version: str) -> str:
        seen = self._versions.setdefault(uid, {})
        return seen.setdefault(version, f"<version {len(seen) + 1}>")


def _place(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(name, "")) for name in ("operation", "manager", "subresource", "apiVersion"))


def sort_causes(status: dict[str, Any]) -> None:
    """Sort the causes in a Status, because the real server returns them in random order."""
    causes = (status.get("details") or {}).get("causes") or []
    if len(causes) > 1:
        causes.sort(key=lambda cause: (cause.get("field", ""), cause.get("message", "")))
        status["message"] = re.sub(r"(?s)is invalid: \[.*\]$", "is invalid: [<causes>]", status["message"])


def _without_controllers(value: dict[str, Any]) -> dict[str, Any]:
    kept = dict(value)
    if "spec" in value and "metadata" in value:
        kept.pop("status", None)
    if fields := value.get("managedFields"):
        kept["managedFields"] = [each for each in fields if each.get("manager") != CONTROLLERS]
    if REVISION in (value.get("annotations") or {}):
        kept["annotations"] = {key: each for key, each in value["annotations"].items() if key != REVISION}
        if not kept["annotations"]:
            del kept["annotations"]
    return kept
