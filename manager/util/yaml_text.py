"""YAML of users: settings, kubeconfigs, manifests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from manager.util.nesting import MOST_LEVELS, TOO_DEEP

# The C loader takes a tenth of the time. A PyYAML built without libyaml lacks it.
_BASE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The number of characters that expanded aliases may add to a text.
_ADDED_BY_ALIASES = 1_000_000

# An integer has fewer characters. Python refuses decimal numbers with more than 4,300 digits.
_LONGEST_NUMBER = 1_000

# Errors for numbers and dates that Python cannot represent, for misplaced tags and for unusual characters.
_IMPOSSIBLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

# Matches the beginning of PyYAML's error messages, before the quoted text.
_UNQUOTED = re.compile(r"(?:(?:(?:could|did) not find )?expected (?:(?!, but ).)*|[\w .%]*)", re.DOTALL)

_START = " that cannot start any token"


class NotYaml(ValueError):
    """Invalid YAML; the message has the place and the reason, but no value, which may be a credential."""


class _Refusal(yaml.MarkedYAMLError):
    """A YAML error with our own message, which may be shown unchanged."""


def load(text: bytes, *, unique_keys: bool = False) -> Any:
    """Parse a YAML text like `yaml.safe_load`; `unique_keys` rejects a mapping with a repeated key.

    Raises `NotYaml` for invalid YAML, for values that are recursive, too deeply nested or too large after the
    expansion of aliases, and for integers of 1,000 characters or more.
    """
    with _plain_errors():
        _check(text)
        return yaml.load(text, Loader=_UniqueLoader if unique_keys else _Loader)  # noqa: S506 - both are safe


def yaml_documents(text: bytes | str) -> list[Any]:
    """Return the documents of a stream without empty ones; raises the errors of `load`."""
    with _plain_errors():
        _check(text)
        return [each for each in yaml.load_all(text, Loader=_Loader) if each]


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = error.problem if isinstance(error, _Refusal) else _unquoted(error.problem)
        raise NotYaml(f"not valid YAML{place}: {problem}") from None
    except (yaml.YAMLError, *_IMPOSSIBLE):
        raise NotYaml("not valid YAML: it has an impossible character or value") from None


def _check(text: bytes | str) -> None:
    """Raise an error if aliases expand a text too much, or if the text is nested too deeply."""
    # The expanded size in characters, and the levels, of each anchor's node; None before its end.
    sizes = dict[str | None, tuple[int, int] | None]()
    # For the open nodes, outermost first: the anchor, its position, and the deepest level before it.
    within: list[tuple[str | None, int, int]] = []
    length = deepest = 0
    for event in yaml.parse(text, Loader=_BASE_LOADER):
        match event:
            case yaml.AliasEvent():
                known = sizes.get(event.anchor, (0, 0))
                if known is None:
                    raise _refusal("it is part of itself, by an alias", event)
                length += known[0]
                deepest = max(deepest, len(within) + known[1])
            case yaml.ScalarEvent():
                length += 1 + len(event.value)
                sizes[event.anchor] = 1 + len(event.value), 0
            case yaml.CollectionStartEvent():
                within.append((event.anchor, length, deepest))
                sizes[event.anchor] = None
                deepest = len(within)
            case yaml.CollectionEndEvent():
                anchor, began, before = within.pop()
                length += 1
                sizes[anchor] = length - began, deepest - len(within)
                deepest = max(deepest, before)
        if deepest > MOST_LEVELS:
            raise _refusal(TOO_DEEP, event)
        if length > len(text) + _ADDED_BY_ALIASES:
            raise _refusal("its aliases expand to too much", event)


class _Loader(_BASE_LOADER):  # type: ignore[misc] # the base class is not known before it runs
    """A loader that rejects numbers with too many digits, and reads `=` as text, like other parsers."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        if len(node.value) >= _LONGEST_NUMBER:
            raise _refusal("it is a number of very many digits", node)
        number: int = super().construct_yaml_int(node)
        return number

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except _IMPOSSIBLE:
            raise _refusal("there is no such value", node) from None


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)


class _UniqueLoader(_Loader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set[tuple[str, str]]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise _refusal(f"{key.value!r} occurs twice", key)
                seen.add((key.tag, key.value))
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


def _refusal(problem: str, at: Any) -> _Refusal:
    return _Refusal(problem=problem, problem_mark=at.start_mark)


def _unquoted(problem: str | None) -> str:
    if problem is not None and problem.endswith(_START):
        return f"found a character{_START}"
    found = _UNQUOTED.match(problem or "")
    return found[0].strip() if found and found[0].strip() else "it cannot be read"
