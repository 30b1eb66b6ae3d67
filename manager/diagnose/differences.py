"""The differences of an object, as `kubectl diff` writes them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import yaml

from manager.api import GroupVersionKind
from manager.api.confidential import masked
from manager.diagnose.dry_run import Change
from manager.telemetry.logs import on_one_line, shortened

_MOST_LINES = 20_000
"""Of an object: to compare more takes long, and nobody reads them."""

_LONGEST_LINE = 2_000

_LARGEST = 256 * 1024
"""Bytes of JSON of the largest object that is written as YAML by itself."""

_HIDDEN = ("managedFields", "resourceVersion")
_DRAWN = ("uid", "creationTimestamp")
"""Of what would be created: they would be others."""

_COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}

_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):  # type: ignore[misc] # which of the two is known when it runs
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: Any, text: str) -> yaml.ScalarNode:
    node: yaml.ScalarNode = dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )
    return node


_Dumper.add_representer(str, _text)


def title(change: Change) -> str:
    """Return the object's name, as `kubectl diff` names its files."""
    known = change.after or change.before or {}
    version, metadata = str(known.get("apiVersion", "")).replace("/", "."), known.get("metadata", {})
    named = (version, known.get("kind"), metadata.get("namespace"), metadata.get("name"))
    return on_one_line(".".join(str(each) for each in named if each))


def differs(change: Change) -> bool:
    """Return whether more than the server's own metadata would change."""
    before, after = _shown(change)
    return before != after


def replaced_pods(change: Change) -> int:
    """Return how many pods would be replaced, because their template would be another one."""
    if change.before is None or change.after is None:
        return 0
    before, after = (each.get("spec") or {} for each in (change.before, change.after))
    if not isinstance(after.get("template"), dict) or before.get("template") == after["template"]:
        return 0
    kind, status = change.after.get("kind"), change.before.get("status") or {}
    by_hand = (after.get("updateStrategy") or {}).get("type") == "OnDelete"
    if kind not in _ROLLED_OUT or by_hand or (kind == "Deployment" and after.get("paused")):
        return 0
    return int(status.get(_ROLLED_OUT[kind]) or 0)


_ROLLED_OUT = {
    "Deployment": "replicas",
    "StatefulSet": "replicas",
    "DaemonSet": "currentNumberScheduled",
}
"""Kinds that replace their pods when the template changes, and the field of the status that counts them."""


def unified(change: Change, *, coloured: bool = False) -> Iterator[str]:
    """Yield the lines of `diff -u`, without confidential values and control characters."""
    before, after = _shown(change)
    name = title(change)
    old, new = _lines(before), _lines(after)
    if len(old) + len(new) > _MOST_LINES:
        yield f"{name} differs, and is too long to be compared"
        return
    lines = difflib.unified_diff(old, new, f"live/{name}", f"planned/{name}", lineterm="")
    for number, line in enumerate(lines):
        safe = shortened(on_one_line(line), _LONGEST_LINE)
        colour = _COLOURS.get(safe[:1], "") if coloured else ""
        if number < 2 and coloured:  # noqa: PLR2004 - both names
            colour = "\x1b[1m"
        yield f"{colour}{safe}\x1b[0m" if colour else safe


def to_yaml(raw: bytes, gvk: GroupVersionKind) -> str:
    """Write an object as YAML, without confidential values, control characters and `managedFields`."""
    if len(raw) > _LARGEST:
        return "it is too large to be shown\n"
    try:
        obj = masked({"apiVersion": gvk.api_version, "kind": gvk.kind, **orjson.loads(raw)})
        obj["metadata"] = {name: each for name, each in obj["metadata"].items() if name != "managedFields"}
        return "".join(f"{on_one_line(line)}\n" for line in _lines(obj))
    except (ValueError, TypeError, RecursionError):
        return "it is nested too deeply to be shown\n"


def _lines(obj: Mapping[str, Any] | None) -> list[str]:
    if obj is None:
        return []
    text: str = yaml.dump(dict(obj), Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=1 << 20)
    return text.split("\n")[:-1]


def _shown(change: Change) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return both states, without the server's own metadata and confidential values."""
    before, after = change.before, change.after
    return (
        before and _cleaned(masked(before, after, "before"), change),
        after and _cleaned(masked(after, before, "after"), change),
    )


def _cleaned(obj: dict[str, Any], change: Change) -> dict[str, Any]:
    hidden = _HIDDEN if change.before is not None else (*_HIDDEN, *_DRAWN)
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name not in hidden}
    return {**obj, "metadata": metadata}
