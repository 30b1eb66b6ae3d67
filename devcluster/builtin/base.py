"""Base class of built-in kinds' strategies (defaults, validation, table columns), and shared table cells."""

from __future__ import annotations

import copy
import difflib
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devcluster.clock import Clock
from devcluster.errors import FieldError
from devcluster.kinds.ages import age
from devcluster.kinds.field import Field
from devcluster.kinds.resource import Column
from devcluster.kinds.strategy import Context, Strategy
from devcluster.names import dns_subdomain

Object = dict[str, Any]

_TYPES = {"#": "integer", "?": "boolean", "@": "date"}


def columns(text: str) -> tuple[Column, ...]:
    """Parse table columns from a compact line such as `Name | Ready | Desired# | IP*`.

    The columns `Name` and `Attacher` have the format `name`. The suffix `#` means integer, `?` boolean, `@`
    date; without one, the type is string. The suffix `*` means that only the wide output has the column.
    """
    return tuple(_column(each.strip()) for each in text.split("|"))


def _column(text: str) -> Column:
    name = text.rstrip("*")
    wide = len(text) - len(name)
    kind = _TYPES.get(name[-1], "string")
    name = name.rstrip("#?@")
    return Column(name, kind, "name" if name in {"Name", "Attacher"} else "", priority=wide)


class BuiltinStrategy(Strategy):
    """Strategy of a built-in kind: the API server's defaults, validation and table columns for it."""

    columns: tuple[Column, ...] = columns("Name | Age")
    name_rule: Callable[..., list[str]] = staticmethod(dns_subdomain)
    defaults: Mapping[str, Any] = {}
    """Values of missing fields by path, if the parent object exists; `*` stands for each item of a list."""
    nonzero: Mapping[str, Any] = {}
    """Values of fields that are missing or have Go's zero value, by path."""
    immutable: tuple[str, ...] = ()
    """The paths of immutable fields."""

    def __init__(self, clock: Clock) -> None:
        """Set up the strategy; tables compute ages with `clock`."""
        self._clock = clock

    def prepare_create(self, new: Object, context: Context) -> None:
        super().prepare_create(new, context)
        self.begin(new, context)
        self.default(new)

    def begin(self, new: Object, context: Context) -> None:
        """Set a new object's initial values, such as its status, before the defaults are filled in."""

    def default(self, obj: Object) -> None:
        for path, value in self.defaults.items():
            _fill(obj, _steps(path), value, (None,))
        for path, value in self.nonzero.items():
            _fill(obj, _steps(path), value, (None, "", 0))

    def validate_name(self, name: str, *, prefix: bool) -> list[str]:
        return self.name_rule(name, prefix=prefix)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        obj = Field(new)
        self.check(obj)
        return obj.errors

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        obj = Field(new)
        self.check_update(obj, Field(old))
        return obj.errors

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        obj = Field(new)
        self.check_status(obj["status"])
        return obj.errors

    def check(self, obj: Field) -> None:
        """Check an object after its defaults are filled in."""

    def check_update(self, obj: Field, old: Field) -> None:
        """Check an update of an object; `old` is the object before it."""
        self.check(obj)
        for path in self.immutable:
            obj.at(path).check_unchanged(old.at(path).value)

    def check_status(self, status: Field) -> None:
        """Check the status of an update to the status subresource."""

    def row(self, obj: Object) -> list[Any]:
        metadata = obj["metadata"]
        cells = iter(self.cells(obj, obj.get("spec") or {}, obj.get("status") or {}))
        shown = {
            "Name": metadata.get("name", ""),
            "Age": self.since(metadata.get("creationTimestamp")),
            "Created At": metadata.get("creationTimestamp"),
        }
        return [shown[each.name] if each.name in shown else next(cells) for each in self.columns]

    def cells(self, obj: Object, spec: Object, status: Object) -> Sequence[Any]:
        """Return the cells of all table columns except Name, Age and Created At."""
        return ()

    def since(self, timestamp: str | None) -> str:
        """Return the age of a timestamp."""
        return age(timestamp, self._clock.now())


class StoredStrategy(BuiltinStrategy):
    """Strategy (defaults, validation, table columns) of a kind without a status."""

    status_fields = ()


class PlainStrategy(StoredStrategy):
    """Strategy (defaults, validation) of a kind whose tables show only the name and the time of creation."""

    columns = columns("Name | Created At@")


def at(obj: Object | None, path: str) -> Any:
    """Return the value at a path such as `spec.handler`, or None."""
    value: Any = obj
    for name in _steps(path):
        value = (value or {}).get(name)
    return value


@functools.cache
def _steps(path: str) -> list[str]:
    return path.split(".")


def _fill(value: Any, path: Sequence[str], default: Any, unset: tuple[Any, ...]) -> None:
    name, *rest = path
    if name == "*":
        for each in value:
            _fill(each, rest, default, unset)
    elif not rest:
        if value.get(name) in unset:
            value[name] = copy.deepcopy(default)
    elif value.get(name) is not None:
        _fill(value[name], rest, default, unset)


def child(obj: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object in a field; add an empty object if the field is missing."""
    found: dict[str, Any] | None = obj.get(name)
    if found is None:
        found = obj[name] = {}
    return found


NONE = "<none>"


def container_cells(template: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the names and the images of a template's containers."""
    listed = ((template or {}).get("spec") or {}).get("containers") or ()
    return ",".join(each.get("name", "") for each in listed), ",".join(
        each.get("image", "") for each in listed
    )


def labels_cell(labels: Mapping[str, str] | None) -> str:
    """Format labels as `a=b,c=d`, sorted by key."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_cell(selector: Mapping[str, Any] | None) -> str:
    """Format a label selector as a query."""
    if not selector:
        return NONE
    parts = [(key, "=", [value]) for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [
        (each.get("key", ""), each.get("operator", ""), each.get("values") or [])
        for each in selector.get("matchExpressions") or ()
    ]
    return ",".join(_requirement(*part) for part in sorted(parts)) or NONE


def _requirement(key: str, operator: str, values: list[str]) -> str:
    if operator == "=":
        return f"{key}={values[0]}"
    if operator == "Exists":
        return key
    if operator == "DoesNotExist":
        return f"!{key}"
    return f"{key} {operator.lower()} ({','.join(sorted(values))})"


def unified(old: Any, new: Any) -> str:
    """Return a unified diff of two values as JSON, with three lines of context."""
    before, after = (json.dumps(each, indent=1, ensure_ascii=False) + "\n" for each in (old, new))
    lines = list(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    return "".join(lines[2:])
