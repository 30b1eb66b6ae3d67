"""The rules of custom objects, drawn from their definition."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.crd.embedded import check_embedded
from devcluster.crd.json_path import nested
from devcluster.errors import FieldError, field_invalid, forbidden
from devcluster.kinds.resource import ScalePaths
from devcluster.kinds.strategy import Context, Strategy
from devcluster.names import label_key
from devcluster.schema.defaulting import compile_defaults, drop_nulls
from devcluster.schema.list_types import compile_uniqueness
from devcluster.schema.node import UNSET, Schema
from devcluster.schema.rules import compile_rules
from devcluster.schema.validation import Validator

__all__ = ["CustomStrategy"]

Object = dict[str, Any]

_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_UNCHECKED = FieldError(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation",
)
_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_LARGEST_REPLICAS = 2**31 - 1


class CustomStrategy(Strategy):
    """The strategy of one version of a custom kind."""

    unconditional_update = False
    has_generation = True
    status_reset = ("spec", "metadata")

    def __init__(
        self,
        schema: Schema,
        *,
        status: bool,
        scale: ScalePaths | None = None,
        closing: tuple[str, str] | None = None,
    ) -> None:
        """Compile what the schema asks for.

        Args:
            schema: Of the version, as the definition has it.
            status: Whether the status is written apart.
            scale: Where the scale subresource finds its fields.
            closing: (group, plural), when the definition is about to go and takes no more objects.
        """
        self._closing = closing
        self.status_fields = ("status",) if status else ()
        self._schema = schema
        self._scale = scale
        self._validator = Validator(schema)
        below = schema.properties.get("status")
        self._status_validator = Validator(below, "status") if below is not None else None
        self._uniqueness = compile_uniqueness(schema)
        self._rules = compile_rules(schema)
        self._fill = compile_defaults(schema)
        self._fills_status = status and below is not None and below.default is not UNSET

    def spec_of(self, obj: Object) -> Object:
        """Return the object without its metadata, and without the status if that is a subresource."""
        return {
            name: value
            for name, value in obj.items()
            if name != "metadata" and name not in self.status_fields
        }

    def prepare_create(self, new: Object, context: Context) -> None:
        """Drop the status if it is written apart; refuse while the definition is being removed."""
        if self._closing is not None:
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(*self._closing, new["metadata"].get("name") or "", why)
        super().prepare_create(new, context)
        self._default_status(new)

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
        """Keep the old status if it is written apart."""
        super().prepare_update(new, old, context)
        self._default_status(new)

    def prepare_status_update(self, new: Object, old: Object, context: Context) -> None:
        """Take the status alone: of the metadata, only managedFields and the version are the writer's."""
        status, metadata = new.get("status"), new["metadata"]
        kept = {name: metadata[name] for name in ("managedFields", "resourceVersion") if name in metadata}
        head: Object = {name: new[name] for name in ("kind", "apiVersion") if name in new}
        new.clear()
        new.update(head)
        inherited = {name: value for name, value in old["metadata"].items() if name != "managedFields"}
        new["metadata"] = {**inherited, **kept}
        for name, value in old.items():
            if name not in {"kind", "apiVersion", "metadata", "status"}:
                new[name] = value
        if status is not None:
            new["status"] = status
        self._default_status(new)

    def default(self, obj: Object) -> None:
        """Drop stray nulls and fill in the defaults."""
        drop_nulls(obj, self._schema, root=True)
        self.default_applied(obj)

    def default_applied(self, obj: Object) -> None:
        """Fill in the defaults and keep stray nulls, since an applied null has to be valid."""
        if self._fill is not None:
            self._fill(obj)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check the schema, the scale fields, embedded objects and list keys, and then the rules."""
        errors = self._validator.validate(new)
        errors += self._check_scale(new, spec=True)
        errors += check_embedded(new, self._schema)
        if self._uniqueness is not None:
            self._uniqueness(new, "", errors)
        return self._with_rules(errors, new, None)

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check the same as at creation, but ignore errors in values that are unchanged."""
        errors = self._validator.validate(new, old)
        errors += self._check_scale(new, spec=True)
        errors += check_embedded(new, self._schema)
        errors += self._check_lists(new, old)
        return self._with_rules(errors, new, old)

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check only the status; the rules see the whole object."""
        errors: list[FieldError] = []
        if "status" in new and self._status_validator is not None:
            errors = self._status_validator.validate(new["status"], old.get("status"))
        errors += self._check_scale(new, spec=False)
        errors += self._check_lists(new, old)
        return self._with_rules(errors, new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Warn of finalizers without a domain, and of broken rules that the old object broke too."""
        before = set((old or {}).get("metadata", {}).get("finalizers") or ())
        added = sorted(set(new["metadata"].get("finalizers") or ()) - before)
        found = [warning for name in added for warning in _finalizer_warnings(name)]
        if old is not None and self._rules is not None:
            found += map(str, self._rules.validate(new, old).forgiven)
        return found

    def _default_status(self, obj: Object) -> None:
        """Fill in the default of a status that was dropped; the real server does so as it reads an object."""
        if self._fills_status and "status" not in obj and self._fill is not None:
            self._fill(obj)

    def _with_rules(self, errors: list[FieldError], new: Object, old: Object | None) -> list[FieldError]:
        if self._rules is None:
            return errors
        if any(each.reason in _BLOCKING for each in errors):
            return [*errors, _UNCHECKED]
        return [*errors, *self._rules.validate(new, old).errors]

    def _check_lists(self, new: Object, old: Object) -> list[FieldError]:
        if self._uniqueness is None:
            return []
        errors: list[FieldError] = []
        self._uniqueness(new, "", errors)
        before: list[FieldError] = []
        if errors:
            self._uniqueness(old, "", before)
        return [] if before else errors

    def _check_scale(self, obj: Object, *, spec: bool) -> list[FieldError]:
        if self._scale is None:
            return []
        errors = [] if not spec else _check_replicas(obj, self._scale.spec)
        errors += _check_replicas(obj, self._scale.status)
        path = self._scale.selector
        value = nested(obj, path) if path else None
        if value is not None and not isinstance(value, str):
            text = f"{path} accessor error: {value} is of the type {_go_type(value)}, expected string"
            errors.append(field_invalid(path, "", text))
        return errors


def _check_replicas(obj: Mapping[str, Any], path: str) -> list[FieldError]:
    value = nested(obj, path)
    if value is None:
        return []
    if type(value) is not int:
        text = f"{path} accessor error: {value} is of the type {_go_type(value)}, expected int64"
        return [field_invalid(path, 0, text)]
    if value < 0:
        return [field_invalid(path, value, "should be a non-negative integer")]
    if value > _LARGEST_REPLICAS:
        return [field_invalid(path, value, f"should be less than or equal to {_LARGEST_REPLICAS}")]
    return []


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")


def _finalizer_warnings(name: str) -> list[str]:
    field = f'metadata.finalizers: "{name}"'
    found = [f"{field}: {each}" for each in label_key(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in name else ""
        found.append(
            f"{field}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with "
            "other finalizer writers"
        )
    return found
