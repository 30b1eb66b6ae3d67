"""The conditions in a kind's status: as our own model, as another project's model, or as plain JSON."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self, get_args, get_origin

from pydantic import ValidationError

from manager.api import (
    ApiModel,
    Condition,
    ConditionStatus,
    ConditionType,
    Resource,
    Unstructured,
    crd_options,
    is_crd,
    set_condition,
)
from manager.api.condition import takes_conditions
from manager.operator.child_progress import CONDITION
from manager.operator.declaration import bare
from manager.util import clock
from manager_kinds.factory import status_model_of


def writes_status(kind: type[Resource], *, extends: bool = False) -> bool:
    """Return whether operators of the kind write its status.

    Operators write the status of their own kind if its CustomResourceDefinition has the status subresource.
    Only an operator that `extends` the status writes it for a kind that others define.
    """
    if "status" not in kind.model_fields:
        return False
    return bool(crd_options(kind).status) if is_crd(kind) else extends


def status_model(kind: type[Resource]) -> type[ApiModel] | None:
    """Return the model of the kind's status; None without a model, or if `@crd` has no status subresource."""
    if "status" not in kind.model_fields or (is_crd(kind) and not crd_options(kind).status):
        return None
    model = bare(kind.model_fields["status"].annotation)
    return model if isinstance(model, type) and issubclass(model, ApiModel) else None


def status_of(obj: Resource) -> Any:
    """Return the object's status; an empty status is created if it is missing.

    Raises TypeError if an empty status is not valid.
    """
    status = getattr(obj, "status", None)
    if status is None:
        model = status_model(type(obj))
        assert model is not None
        try:
            status = obj.status = model()  # type: ignore[attr-defined]
        except ValidationError as error:
            needed = ", ".join(str(each["loc"][0]) for each in error.errors())
            raise TypeError(f"{obj.kind}.status is missing, and cannot be made: it needs {needed}") from None
    return status


@dataclass(frozen=True, slots=True)
class ConditionList:
    """The field `status.conditions` of a kind."""

    item: type[ApiModel] | None
    """The model of one condition; None if conditions are JSON objects with any fields."""
    is_json: bool = False
    """Whether the status is JSON, as in built-in kinds; `item` then only lists a condition's fields."""
    named: tuple[ConditionType, ...] = ()
    """The condition types that the kind's `Status` names; empty if the kind accepts any type."""
    known: frozenset[ConditionType] = frozenset()
    """The types in `named` that the model of one condition accepts, too."""
    plain: type[Resource] | None = None
    """The kind, if its model uses our own `Condition`, which needs no conversion; otherwise None."""

    @classmethod
    def of(cls, kind: type[Resource]) -> Self | None:
        """Return the description of the kind's conditions; None if `ctx.condition` cannot set any."""
        status, is_json = status_model(kind), False
        if status is None and "status" in kind.model_fields:
            status, is_json = status_model_of(kind), True
        field = None if status is None else status.model_fields.get("conditions")
        held = None if field is None else bare(field.annotation)
        if get_origin(held) is not list:
            return None
        # An operator that extends others' status may set conditions that their model does not name.
        named: tuple[ConditionType, ...] = tuple(getattr(status, "meanings", ())) if is_crd(kind) else ()
        item = bare(get_args(held)[0])
        if item is Any or get_origin(item) is dict:
            return cls(None, is_json, named)
        if not (isinstance(item, type) and issubclass(item, ApiModel)):
            return None
        fields = {each.alias or name: each for name, each in item.model_fields.items()}
        required = (name for name, each in fields.items() if each.is_required())
        if not takes_conditions(fields, required):
            return None
        known = frozenset(each for each in named if _takes(item, each))
        return cls(item, is_json, named, known, kind if item is Condition and not is_json else None)

    def takes(self, type: ConditionType) -> bool:  # noqa: A002 - the field's name
        """Return whether the kind accepts conditions of that type."""
        if type in self.known:
            return True
        if self.named and type != CONDITION and type not in self.named:
            return False
        return self.item is None or _takes(self.item, type)

    def why_refused(self, type: ConditionType) -> str:  # noqa: A002 - the field's name
        """Return an error text with the allowed types and the most similar one."""
        if not self.named:
            return "its model names those it takes"
        near = difflib.get_close_matches(type, self.named, n=1)
        return f"its Status names {', '.join(self.named)}" + (f"; did you mean {near[0]}?" if near else "")

    def read(self, obj: Resource) -> list[Condition]:
        """Return the conditions of an object; empty if its status has no list."""
        status = obj.content.get("status") if isinstance(obj, Unstructured) else getattr(obj, "status", None)
        held = status.get("conditions") if isinstance(status, dict) else getattr(status, "conditions", None)
        if not held:
            return []
        return [each if isinstance(each, Condition) else _as_ours(each) for each in held]

    def fits(self, stored: Unstructured) -> bool:
        """Return whether the conditions of a stored object, which may not fit its model, are a valid list."""
        status = stored.content.get("status") or {}
        held = (status.get("conditions") or []) if isinstance(status, dict) else None
        return isinstance(held, list) and all(isinstance(each, dict) and "type" in each for each in held)

    def set(
        self, obj: Resource, kind: ConditionType, status: ConditionStatus, reason: str, message: str
    ) -> None:
        """Set the condition of type `kind` for the object's current generation; see `set_condition`."""
        generation = obj.metadata.generation
        if type(obj) is self.plain:
            held = getattr(obj.status, "conditions", None)  # type: ignore[attr-defined]
            held = _held(obj) if held is None else held
            set_condition(held, kind, status, reason, message, generation=generation, now=clock.now)
            return
        held, ours = _held(obj), self.read(obj)
        if not set_condition(ours, kind, status, reason, message, generation=generation, now=clock.now):
            return
        index = [each.type for each in ours].index(kind)
        theirs: Any = ours[index]
        if self.item is None or not issubclass(self.item, Condition):
            theirs = self._as_theirs(theirs, _wire(held[index]) if index < len(held) else {})
        as_json = self.is_json or isinstance(obj, Unstructured)
        held[index : index + 1] = [_wire(theirs) if as_json else theirs]

    def remove(self, obj: Resource, type: str) -> None:  # noqa: A002 - the field's name
        """Remove the condition of that type."""
        kinds = [each.type for each in self.read(obj)]
        held = _held(obj)
        held[:] = [each for each, kind in zip(held, kinds, strict=True) if kind != type]

    def _as_theirs(self, condition: Condition, before: dict[str, Any]) -> Any:
        """Return the condition in the kind's own form; fields unknown to us are copied from `before`."""
        said = condition.to_wire()
        if self.item is None:
            return before | said
        known = {each.alias or name for name, each in self.item.model_fields.items()}
        theirs = before | {name: value for name, value in said.items() if name in known}
        return theirs if self.is_json else self.item.model_validate(theirs)


@lru_cache(maxsize=1_000)
def _takes(item: type[ApiModel], condition: str) -> bool:
    try:
        item.model_validate({"type": condition, "status": "True", "reason": "Known", "message": ""})
    except ValidationError as error:
        return not any(each["loc"][:1] == ("type",) for each in error.errors())
    return True


def _held(obj: Resource) -> list[Any]:
    """Return the list of an object's conditions; a missing list is created."""
    if isinstance(obj, Unstructured):
        holder = obj.content["status"] = obj.content.get("status") or {}
    else:
        holder = status_of(obj)
    if isinstance(holder, dict):
        holder["conditions"] = holder.get("conditions") or []
        return holder["conditions"]  # type: ignore[no-any-return]
    if holder.conditions is None:
        holder.conditions = []  # assign first: a model that validates assignments keeps a copy of the list
    return holder.conditions  # type: ignore[no-any-return]


def _wire(item: Any) -> dict[str, Any]:
    if isinstance(item, ApiModel):
        return item.to_wire()
    return item if isinstance(item, dict) else {}


def _as_ours(item: Any) -> Condition:
    """Convert a condition from another model without validation."""
    wire = _wire(item)
    return Condition.model_construct(
        type=wire.get("type", ""),
        status=wire.get("status", "Unknown"),
        reason=wire.get("reason", ""),
        message=wire.get("message", ""),
        observed_generation=wire.get("observedGeneration"),
        last_transition_time=wire.get("lastTransitionTime"),
    )
