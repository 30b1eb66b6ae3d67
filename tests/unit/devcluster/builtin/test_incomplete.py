"""Whatever is left out of an object, or is empty in it, is refused in the server's way or accepted."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.builtin import resources
from devcluster.errors import FieldError, StatusError
from devcluster.exchange import User
from devcluster.kinds.strategy import Context
from devcluster.storage import Store
from tests.recordings.builtin import objects

Json = dict[str, Any]
NOW = "2026-01-31T12:00:00Z"
RESOURCES = {each.name: each for each in resources()}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, each in value.items():
            if path or key not in {"apiVersion", "kind", "metadata"}:
                yield (*path, key)
                yield from places(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))


def damaged(obj: Json, path: tuple[Any, ...]) -> Iterator[Json]:
    """Without the field; and with an empty or a null one, which decoding leaves where Go has no omitempty."""
    for replacement in ("gone", "empty", "null"):
        copied = copy.deepcopy(obj)
        at: Any = copied
        for step in path[:-1]:
            at = at[step]
        old = at[path[-1]]
        if replacement == "gone":
            del at[path[-1]]
        elif isinstance(old, list | dict):
            at[path[-1]] = type(old)() if replacement == "empty" else None
        else:
            continue
        yield copied


@pytest.mark.parametrize("case", objects(), ids=lambda each: each["name"])
def test_what_is_left_out_is_never_a_crash(case: Json) -> None:
    resource = RESOURCES[case["resource"]]
    strategy, sent, old = resource.strategy, case["sent"], case.get("old")
    context = Context(store=Store(), now=NOW, user=User("u"))
    for path in list(places(sent)):
        for new in damaged(sent, path):
            with contextlib.suppress(StatusError):
                strategy.default(new)
                strategy.row(new)
                if old is None:
                    strategy.prepare_create(new, context)
                    errors = strategy.validate_create(new, context)
                else:
                    strategy.prepare_update(new, old, context)
                    errors = strategy.validate_update(new, old, context)
                assert all(isinstance(error, FieldError) for error in errors)
                strategy.warnings(new, old)
                if not errors:
                    strategy.commit(new, old, context)
                strategy.row(new)
                strategy.fields(new)
