"""The common base of the built-in kinds' strategies, and cells that their tables share."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from devcluster.kinds.ages import age
from devcluster.kinds.resource import Column
from devcluster.kinds.strategy import Strategy
from devcluster.names import dns_subdomain

if TYPE_CHECKING:
    from devcluster.clock import Clock
    from devcluster.kinds.strategy import Context

__all__ = [
    "BuiltinStrategy",
    "Object",
    "PlainStrategy",
    "StoredStrategy",
    "child",
    "columns",
    "container_cells",
    "labels_cell",
    "selector_cell",
    "unified",
]

Object = dict[str, Any]

_TYPES = {"#": "integer", "?": "boolean", "@": "date"}


def columns(text: str) -> tuple[Column, ...]:
    """Parse table columns from a compact line such as `Name | Ready | Desired# | IP*`.

    The columns `Name` and `Attacher` have the format `name`. A mark behind a name is the type: `#` integer,
    `?` boolean, `@` date, else string. A star marks a column of the wide output.
    """
    return tuple(_column(each.strip()) for each in text.split("|"))


def _column(text: str) -> Column:
    name = text.rstrip("*")
    wide = len(text) - len(name)
    kind = _TYPES.get(name[-1], "string")
    name = name.rstrip("#?@")
    return Column(name, kind, "name" if name in {"Name", "Attacher"} else "", priority=wide)


class BuiltinStrategy(Strategy):
    """A kind that comes with the server."""

    columns: tuple[Column, ...] = columns("Name | Age")
    name_rule: Callable[..., list[str]] = staticmethod(dns_subdomain)

    def __init__(self, clock: Clock) -> None:
        """Set up the strategy; `clock` is for the ages in tables."""
        self._clock = clock

    def prepare_create(self, new: Object, context: Context) -> None:
        """Replace the client's status by the initial one, and set the defaults again after that."""
        super().prepare_create(new, context)
        self.begin(new, context)
        self.default(new)

    def begin(self, new: Object, context: Context) -> None:
        """Set a new object's initial values beyond its defaults."""

    def validate_name(self, name: str, *, prefix: bool) -> list[str]:
        """Check the name by the kind's rule."""
        return self.name_rule(name, prefix=prefix)

    def row(self, obj: Object) -> list[Any]:
        """Return the name, the kind's own cells, and the age if the age is the only column left."""
        return [obj["metadata"].get("name", ""), self.created(obj)]

    def created(self, obj: Object) -> str:
        """Return an object's age."""
        return self.since(obj["metadata"].get("creationTimestamp"))

    def since(self, timestamp: str | None) -> str:
        """Return the age of a timestamp."""
        return age(timestamp, self._clock.now())


class StoredStrategy(BuiltinStrategy):
    """A kind that has no status."""

    status_fields = ()


class PlainStrategy(StoredStrategy):
    """The strategy of a kind whose tables show the time of creation."""

    columns = columns("Name | Created At@")

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the creation time itself and no age."""
        return [obj["metadata"].get("name", ""), obj["metadata"].get("creationTimestamp")]


def child(obj: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object in a field; adds an empty one if the field is missing."""
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
