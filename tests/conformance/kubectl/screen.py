"""What kubectl prints, with all that differs between two servers although they agree replaced."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.mask import Mask

__all__ = ["shown", "without_descriptions"]

DURATION = r"(?:\d+[dhms]){1,2}"
BEFORE = [
    (re.compile(r"(?m)^((?:Client|Kustomize) Version): .*"), r"\1: <version>"),
    (re.compile(r"/tmp/kubectl-edit-\d+"), "/tmp/kubectl-edit"),
    (re.compile(r"(Resource Version: +)\d+"), r"\1<version>"),
    (re.compile(r"(certificate is valid for ).*(, not )"), r"\1<names>\2"),
    (re.compile(r"(nodePort\"?: )\d+"), r"\1<node port>"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<date>"),
    # What kubectl logs of itself: how often it tried, and when it gave up.
    (re.compile(r"(?m)^[EWI]\d{4} [\d:.]+ +\d+ (?:memcache|reflector)\.go.*\n"), ""),
    (re.compile(r"(?m)^[EWI]\d{4} [\d:.]+ +\d+ "), "<log> "),
    (re.compile(r"/tmp/(LIVE|MERGED)-\d+/(\S+)\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}"), r"\1/\2"),
    (re.compile(r"/tmp/(LIVE|MERGED)-\d+"), r"\1"),
    (re.compile(r"((?:pod-template|controller-revision)-hash\"?[=:] ?\"?)[\w-]+"), r"\1<hash>"),
    (re.compile(r"\bnode-[0-2]\b(?:/[\d.]+)?"), "<node>"),
    (re.compile(r"\(x\d+ over [^)]*\)"), "(<again>)"),
    (re.compile(rf"\b{DURATION} ago\b"), "<age> ago"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), "<token>"),
]
# In a column of its own; `cpu: 100m` is none.
AGE = re.compile(rf"(?m)(^|(?<=\S)(?<!cpu:)  +|\t)(?:{DURATION}|<unknown>|<invalid>)(?=  |\t| \(|$)")
# Between columns, not after the sign of a line in a diff.
GAP = re.compile(r"(?<=.\S)  +(?=\S)")
# What follows comes in the order of times of one second, or of whoever was first.
UNORDERED = ("Events:", "Conditions:")


# Of `explain`: what a kind or field is for, and the space around it; not the fields themselves.
DESCRIPTION = re.compile(r"\s*$|    [^\t]+$|DESCRIPTION:$")


def without_descriptions(lines: list[str]) -> list[str]:
    """What `explain` prints without the prose, and without the fields below one that were below another."""
    return _without_repetition([line for line in lines if not DESCRIPTION.match(line)], {})


def _without_repetition(lines: list[str], seen: dict[tuple[str, ...], str], path: str = "") -> list[str]:
    """`seen`: what stood below a field, as far as it is indented there, and where the field is."""
    kept: list[str] = []
    while lines:
        line, *lines = lines
        depth = _depth(line)
        end = next((number for number, each in enumerate(lines) if _depth(each) <= depth), len(lines))
        below, lines = lines[:end], lines[end:]
        here = f"{path}.{line.split()[0]}" if line.strip() else path
        key = tuple(each[depth:] for each in below)
        if len(below) > 1 and key in seen:
            kept.append(f"{line}, as {seen[key]}")
        else:
            seen[key] = here
            kept += [line, *_without_repetition(below, seen, here)]
    return kept


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def shown(text: str, mask: Mask, *, unordered: bool = False) -> list[str]:
    """The lines of a text, masked; columns are as wide as they need to be no more."""
    for pattern, instead in BEFORE:
        text = pattern.sub(instead, text)
    # Tables are laid out by what stands in them.
    text = AGE.sub(r"\1<age>", text)
    lines = [GAP.sub("  ", line).rstrip() for line in mask.text(text).splitlines()]
    lines = _sort_sections(lines)
    return sorted(lines) if unordered else lines


def _sort_sections(lines: list[str]) -> list[str]:
    """Events and conditions of `describe`, and causes, in an order of their own; of equal events one."""
    kept: list[str] = []
    section: set[str] | None = None
    for line in [*lines, ""]:
        if section is not None and line.startswith("  "):
            section.add(re.sub(r"  <age>(?: \(<again>\))?", "", line))
            continue
        kept += sorted(section or ())
        kept.append(line)
        section = set() if line in UNORDERED else None
    return [line for _, lines in itertools.groupby(kept[:-1], _is_cause) for line in _in_order(lines)]


def _is_cause(line: str) -> bool:
    """Whether it is one of several things that are wrong, which the real server goes through in any order."""
    return line.startswith("* ")


def _in_order(lines: Iterator[str]) -> list[str]:
    found = list(lines)
    return sorted(found) if _is_cause(found[0]) else found
