"""Regular expressions of the programs must not backtrack: matching takes linear time."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from tests.support import LIBRARY_PACKAGES

PACKAGES = (*LIBRARY_PACKAGES, "petstore", "apis", "controllers")
CHARACTERS = frozenset(map(chr, range(0x180)))
MANY = 2000
"""Repeats with a higher maximum count as unlimited."""

REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}
ONE = {op.LITERAL, op.IN, op.NOT_LITERAL, op.ANY}

Pattern = tuple[str | bytes, int]


def patterns() -> Iterator[tuple[str, Pattern]]:
    """Yield each pattern of a module variable or of a call of a `re` function, with its place in the code."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if found.name.endswith("__main__"):
                continue
            module = importlib.import_module(found.name)
            for kept in vars(module).values():
                each = getattr(kept, "__self__", kept)  # of `re.compile(...).fullmatch`
                if isinstance(each, re.Pattern):
                    yield found.name, (each.pattern, each.flags)
            source = Path(module.__file__ or "")
            if source.suffix != ".py" or not re.search(r"\bre\.", text := source.read_text()):
                continue
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name("re")),
                        args=[ast.Constant(str() | bytes() as pattern), *_],
                    ) if "VERBOSE" not in ast.unparse(node):
                        yield f"{found.name}:{node.lineno}", (pattern, 0)


@cache
def in_category(category: Any) -> frozenset[str]:
    text = {"CATEGORY_DIGIT": r"\d", "CATEGORY_SPACE": r"\s", "CATEGORY_WORD": r"\w"}
    name = str(category).replace("NOT_", "")
    found = frozenset(each for each in CHARACTERS if re.match(text[name], each))
    return CHARACTERS - found if "NOT_" in str(category) else found


def characters(tree: Any) -> frozenset[str]:
    """Return all characters that a match of the expression can contain."""
    found = frozenset[str]()
    for kind, about in tree:
        match kind:
            case op.LITERAL:
                found |= {chr(about)}
            case op.NOT_LITERAL:
                found |= CHARACTERS - {chr(about)}
            case op.ANY:
                found |= CHARACTERS - {"\n"}
            case op.RANGE:
                found |= frozenset(each for each in CHARACTERS if about[0] <= ord(each) <= about[1])
            case op.CATEGORY:
                found |= in_category(about)
            case op.IN:
                within = characters(each for each in about if each[0] is not op.NEGATE)
                found |= CHARACTERS - within if about[0][0] is op.NEGATE else within
            case op.BRANCH:
                found = found.union(*map(characters, about[1]))
            case _:
                for part in parts(kind, about):
                    found |= characters(part)
    return found


def parts(kind: Any, about: Any) -> list[Any]:
    """Return the subexpressions of an item of an expression."""
    if kind is op.BRANCH:
        return list(about[1])
    if kind in REPEATS:
        return [about[2]]
    if kind is op.SUBPATTERN:
        return [about[3]]
    return [about] if kind is op.ATOMIC_GROUP else []


def is_endless(kind: Any, about: Any) -> bool:
    return kind in {op.MAX_REPEAT, op.MIN_REPEAT} and about[1] >= MANY


def endless(tree: Any) -> bool:
    """Return whether the expression has an unlimited repeat that can backtrack."""
    return any(
        is_endless(kind, about) or (kind is not op.ATOMIC_GROUP and any(map(endless, parts(kind, about))))
        for kind, about in tree
    )


def flat(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the items of an expression; replace groups by their items."""
    for kind, about in tree:
        if kind is op.SUBPATTERN:
            yield from flat(about[3])
        else:
            yield kind, about


def begins(tree: Any) -> tuple[frozenset[str], bool]:
    """Return the possible first characters of a match, and whether a match can be empty."""
    found = frozenset[str]()
    for kind, about in flat(tree):
        inner = [begins(part) for part in parts(kind, about)]
        if kind in ONE:
            return found | characters([(kind, about)]), False
        found = found.union(*(each for each, _ in inner))
        least = about[0] if kind in REPEATS else 1
        if least > 0 and inner and not any(empty for _, empty in inner):
            return found, False
    return found, True


def is_marked_off(body: list[tuple[Any, Any]]) -> bool:
    """Return whether the first or last item of a repeated expression shares no character with the rest."""
    return any(
        not begins([own])[1] and not endless([own]) and not characters([own]) & characters(rest)
        for own, rest in ((body[0], body[1:]), (body[-1], body[:-1]))
        if rest
    )


def is_one_of_several(body: list[tuple[Any, Any]]) -> bool:
    """Return whether the first character decides between the alternatives of a repeated expression."""
    if len(body) != 1 or body[0][0] is not op.BRANCH or endless(body):
        return False
    firsts = [begins(each)[0] for each in body[0][1][1]]
    return sum(map(len, firsts)) == len(frozenset[str]().union(*firsts))


def faults(tree: Any) -> Iterator[str]:
    """Yield the reasons why matching may take more than linear time."""
    items = list(flat(tree))
    for index, (kind, about) in enumerate(items):
        if is_endless(kind, about):
            body = list(flat(about[2]))
            least, most = about[2].getwidth()
            if least != most and not is_marked_off(body) and not is_one_of_several(body):
                yield "nothing says where a round of a repeat ends"
            mine = characters(about[2])
            for further in items[index + 1 :]:
                its, may_be_empty = begins([further])
                if not mine & its and not may_be_empty:
                    break
                if mine & its and endless([further]):
                    yield "of two repeats after each other, nothing says where the one ends"
        for part in parts(kind, about):
            yield from faults(part)


def problems(pattern: Pattern) -> list[str]:
    return sorted(set(faults(parser.parse(*pattern))))


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a|b*)*c",
        r"\s*\s*x",
        "([a-z]+[0-9]*)*!",
        "a*(ba*)?a*c",
        r"(.*x)*",
        ".*a.*b",
        r"'(\\.|[^'])*'",
        "(a|aa)*",
    ],
)
def test_pattern_check_reports_a_pattern_that_backtracks(pattern: str):
    assert problems((pattern, 0))


@pytest.mark.parametrize(
    "pattern",
    [r"[a-z]+(\.[a-z]+)*", r"\s*:\s*", "(?:[^x]++|xy)*+", "[a-z]*[0-9]+", "(a+,)*", r"'(\\.|[^'\\])*'"],
)
def test_pattern_check_accepts_a_pattern_that_does_not_backtrack(pattern: str):
    assert not problems((pattern, 0))


def test_patterns_of_the_project_do_not_backtrack():
    bad = {(where, pattern): found for where, pattern in patterns() if (found := problems(pattern))}
    assert not bad, "\n".join(f"{k} {v}" for k, v in bad.items())
