"""How an object would differ, as `kubectl diff` writes it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from manager.cache.record import LAST_APPLIED
from manager.logs import on_one_line, shortened
from manager.planning.dry_run import Change

_MOST_LINES = 20_000
"""Of an object: to compare more takes long, and nobody reads them."""

_LONGEST_LINE = 2_000

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
    """What object it is, as `kubectl diff` names its files."""
    known = change.after or change.before or {}
    version, metadata = str(known.get("apiVersion", "")).replace("/", "."), known.get("metadata", {})
    named = (version, known.get("kind"), metadata.get("namespace"), metadata.get("name"))
    return on_one_line(".".join(str(each) for each in named if each))


def differs(change: Change) -> bool:
    """Whether anybody but the server's own books would see it."""
    return _cleaned(change.before, change) != _cleaned(change.after, change)


def unified(change: Change, *, coloured: bool = False) -> Iterator[str]:
    """The lines of `diff -u`. No value of a Secret is in them, and nothing that a terminal would obey."""
    before, after = _cleaned(change.before, change), _cleaned(change.after, change)
    if _is_secret(change):
        before, after = _masked(before, after, "before"), _masked(after, before, "after")
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


def _lines(obj: Mapping[str, Any] | None) -> list[str]:
    if obj is None:
        return []
    text: str = yaml.dump(dict(obj), Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=1 << 20)
    return text.split("\n")[:-1]


def _cleaned(obj: Mapping[str, Any] | None, change: Change) -> dict[str, Any] | None:
    if obj is None:
        return None
    hidden = _HIDDEN if change.before is not None else (*_HIDDEN, *_DRAWN)
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name not in hidden}
    if LAST_APPLIED in (metadata.get("annotations") or {}):  # a copy of all of it
        kept = {name: value for name, value in metadata["annotations"].items() if name != LAST_APPLIED}
        metadata["annotations"] = kept
    return {**obj, "metadata": metadata}


def _is_secret(change: Change) -> bool:
    known = change.after or change.before or {}
    return known.get("kind") == "Secret" and known.get("apiVersion") == "v1"


def _masked(obj: dict[str, Any] | None, other: dict[str, Any] | None, when: str) -> dict[str, Any] | None:
    """A Secret with its keys alone; of values that differ, that they do."""
    if obj is None:
        return None
    masked = dict(obj)
    for name in ("data", "stringData"):
        values = obj.get(name)
        if not isinstance(values, Mapping):
            continue
        others = (other or {}).get(name) or {}
        masked[name] = {
            key: f"*** ({when})" if key in others and others[key] != value else "***"
            for key, value in values.items()
        }
    return masked
