"""The factory of Kubernetes' types: a type is created when a program first uses it.

Type checkers read a module's file `.pyi`. Its file `.json` has the same content for the run time, one type
per line.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ForwardRef, Generic, Optional, Self, TypeVar

import orjson
from pydantic import Field, create_model

from manager.api import (
    ApiModel,
    Condition,
    GroupVersionKind,
    Int32,
    Int64,
    IntOrString,
    ObjectMeta,
    Quantity,
    Resource,
    schema,
)

__all__ = [
    "Part",
    "has_type",
    "importer",
    "kind_of",
    "kinds_named",
    "lister",
    "part_model_of",
    "status_model_of",
]

L = TypeVar("L")

if TYPE_CHECKING:

    class Part(ApiModel, Generic[L]):
        """The base class of models for fields' types, such as `EnvVar`; `L` is the type of their JSON."""

        @classmethod
        def of(cls, literal: L) -> Self:
            """Create a model from its JSON form."""

        def to_wire(self, *, only: set[str] | None = None) -> L:  # type: ignore[override]
            """Return the model as JSON."""

else:

    class Part(ApiModel, defer_build=True):
        """The base class of models for fields' types, such as `EnvVar`."""

        @classmethod
        def of(cls, literal: Any) -> Self:
            """Create a model from its JSON form."""
            return cls.model_validate(literal)


_FOLDER = Path(__file__).parent
_JSON_OBJECT = dict[str, Any]
_SCALARS: Mapping[str, Any] = {
    "Any": Any,
    "Condition": Condition,
    "Int32": Int32,
    "Int64": Int64,
    "IntOrString": IntOrString,
    "ObjectMeta": ObjectMeta,
    "Quantity": Quantity,
    "bool": bool,
    "datetime": datetime,
    "float": float,
    "object": _JSON_OBJECT,
    "str": str,
    "str | None": str | None,
}
_lock = threading.RLock()
_in_work: set[str] = set()
"""The types under construction: one of them may contain itself."""


def importer(module: str) -> Callable[[str], Any]:
    """Return a module's function `__getattr__`, which creates its types."""

    def find(name: str) -> Any:
        if name.endswith("Dict") and has_type(module, name.removesuffix("Dict")):
            return _JSON_OBJECT
        record = _record(module, name)
        if record is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        with _lock:
            namespace = vars(importlib.import_module(module))
            if name not in namespace:
                namespace[name] = _make(module, name, record)
            return namespace[name]

    return find


def lister(module: str) -> Callable[[], list[str]]:
    """Return a module's function `__dir__`, which lists its types."""

    def names() -> list[str]:
        table: dict[str, dict[str, Any]] = orjson.loads(_table(module))
        return [*table, *(f"{name}Dict" for name, record in table.items() if "kind" not in record)]

    return names


def has_type(module: str, name: str) -> bool:
    """Return whether the module has a type of that name."""
    return _record(module, name) is not None


@cache
def kind_of(gvk: GroupVersionKind) -> type[Resource] | None:
    """Return the class of a built-in kind; None for any other kind."""
    module = f"{__package__}.{gvk.group.partition('.')[0] or 'core'}_{gvk.version}"
    record = _record(module, gvk.kind)
    if record is None or record.get("kind", {}).get("group") != gvk.group:
        return None
    kind: type[Resource] = getattr(importlib.import_module(module), gvk.kind)
    return kind


def status_model_of(kind: type[Resource]) -> type[ApiModel] | None:
    """Return the model of the status, which a built-in kind stores as JSON; None if the kind has none."""
    return part_model_of(kind, "status")


def part_model_of(kind: type[Resource], field: str) -> type[ApiModel] | None:
    """Return the model of a field that a built-in kind stores as JSON, such as its `spec`, or None."""
    builtin = kind_of(kind.gvk)
    name = f"{kind.gvk.kind}{field.capitalize()}"
    if builtin is None or not has_type(builtin.__module__, name):
        return None
    model: type[ApiModel] = getattr(importlib.import_module(builtin.__module__), name)
    return model


@cache
def kinds_named(version: str, name: str) -> Sequence[GroupVersionKind]:
    """Return the built-in kinds of that version and name, of any group."""
    modules = (f"{__package__}.{file.stem}" for file in sorted(_FOLDER.glob(f"*_{version}.json")))
    records = (_record(module, name) for module in modules)
    kinds = (each["kind"] for each in records if each is not None and "kind" in each)
    return [GroupVersionKind(each["group"], version, name) for each in kinds]


def _record(module: str, name: str) -> dict[str, Any] | None:
    """Return the record of a type in the module's table, or None; parse only its line of the table."""
    table = _table(module)
    start = table.find(f'\n"{name}": '.encode())
    if start < 0:
        return None
    line = table[start : table.index(b"\n", start + 1)].strip().rstrip(b",")
    record: dict[str, Any] = orjson.loads(b"{%b}" % line)[name]
    return record


def _table(module: str) -> bytes:
    try:
        return (_FOLDER / f"{module.rpartition('.')[2]}.json").read_bytes()
    except FileNotFoundError:
        return b""


def _make(module: str, name: str, record: dict[str, Any]) -> Any:
    bases: list[Any] = [Resource if "kind" in record else Part]
    keywords = dict[str, Any](record.get("kind", ()))
    if methods := record.get("methods"):
        place, _, mixin = methods.rpartition(".")
        bases.insert(0, getattr(importlib.import_module(f"{__package__}.{place}"), mixin))
    if record.get("atomic"):
        keywords["json_schema_extra"] = schema.atomic_map()
    _in_work.add(name)
    try:
        fields: dict[str, Any] = {each: _field(module, **words) for each, words in record["fields"].items()}
    finally:
        _in_work.discard(name)
    return create_model(
        name,
        __base__=tuple(bases),
        __module__=module,
        __doc__=record.get("about"),
        __cls_kwargs__=keywords,
        **fields,
    )


def _field(
    module: str,
    *,
    type: Any,  # noqa: A002 - the table's key
    required: bool = False,
    default: dict[str, Any] | None = None,
    alias: str | None = None,
    hidden: bool = False,
    marks: Mapping[str, list[Any]] | None = None,
) -> tuple[Any, Any]:
    annotation = _type(module, type)
    settings: dict[str, Any] = {"alias": alias} if alias is not None else {}
    if hidden:
        settings["repr"] = False
    if default is not None:
        settings["default_factory"] = dict
    elif not required:
        annotation, settings["default"] = Optional[annotation], None  # noqa: UP045 - a forward reference, too
    for mark, arguments in (marks or {}).items():
        annotation = Annotated[annotation, getattr(schema, mark)(*arguments)]
    return annotation, Field(**settings)


def _type(module: str, code: Any) -> Any:
    if isinstance(code, list):
        outer, inner = code
        inner = _type(module, inner)
        return list[inner] if outer == "list" else dict[str, inner]  # type: ignore[valid-type]
    if code in _SCALARS:
        return _SCALARS[code]
    group, _, name = code.rpartition(".")
    if name in _in_work:
        return ForwardRef(name)
    return getattr(importlib.import_module(f"{__package__}.{group}" if group else module), name)
