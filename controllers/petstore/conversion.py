"""Pets from one version to the other and back, as plain JSON, with nothing lost where there is room for it.

What only one version can hold rides in an annotation while a Pet is shown in the other one: v1alpha1's text
of a birthday, where it is not just midnight in UTC, and v1beta1's owner. Such a note is used up by the way
back. The text of a birthday counts only while it still means the day that the other version has: a day that
was changed there is not overwritten by what it was before.

Objects come unchecked, before a schema has seen them: what cannot be read stays as it is, so that the schema
has its say about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Any

import orjson
from pydantic import ValidationError

from apis.petstore.v1beta1.pet import ADDRESS_PATTERN, Pet, PetOwner
from controllers.petstore.birthday import InvalidBirthday, day_of, day_of_moment
from manager.webhook import JsonObject, Refused, forbidden

FROM_V1ALPHA1 = "petstore.example.com/v1alpha1"
"""The annotation with what v1alpha1 had and v1beta1 cannot hold: {"birthday":"2021-04-01T12:00:00Z"}."""

FROM_V1BETA1 = "petstore.example.com/v1beta1"
"""The annotation with what v1beta1 had and v1alpha1 cannot hold: {"owner":{"name":"Ann"}}."""

_ADDRESS = re.compile(ADDRESS_PATTERN)

_LONGEST = 256 * 1024
"""Characters of a note: the API server stores no longer annotations. Who sends more wants it to be costly."""

_MOST = _LONGEST - 4096
"""Bytes of the annotations of a Pet. The API server takes 4 KiB more: for the notes of this program."""

_ANNOTATIONS = "annotations"
"""In a note, what to make of the annotations once the note is taken out, where that is not just the rest:
the value that it took the place of, by its key; or that they were empty, or null."""


def v1alpha1_to_v1beta1(pet: JsonObject) -> None:
    """Change a v1alpha1 Pet into the same in v1beta1, but for its apiVersion."""
    _convert(pet, leaving=FROM_V1ALPHA1, entering=FROM_V1BETA1, there=_as_day, back=_as_moment)


def v1beta1_to_v1alpha1(pet: JsonObject) -> None:
    """Change a v1beta1 Pet into the same in v1alpha1, but for its apiVersion."""
    _convert(pet, leaving=FROM_V1BETA1, entering=FROM_V1ALPHA1, there=_as_moment, back=_as_day)


def size_of_annotations(pet: Pet) -> int:
    """Bytes of the annotations, with keys, in the version in which they are longer."""
    # Not all of it: managedFields may be nested more deeply than can be written out.
    shown = {**pet.to_wire(only={"spec"}), "metadata": {"annotations": dict(pet.metadata.annotations)}}
    v1beta1_to_v1alpha1(shown)
    both = pet.metadata.annotations, shown["metadata"].get("annotations") or {}
    return max(len("".join(chain(*each.items())).encode()) for each in both)


def check_room(pet: Pet) -> None:
    """Raise Refused where v1alpha1 could not show all of the Pet: a write there would lose the rest."""
    if (size := size_of_annotations(pet)) > _MOST:
        reason = f"may have {_MOST} bytes of the 256 KiB, with notes about the other version, not {size}"
        raise Refused(forbidden("metadata.annotations", reason))


def _as_day(birthday: Any) -> Any:
    """A birthday of v1alpha1 as v1beta1 has it."""
    try:
        return day_of_moment(birthday).isoformat() if isinstance(birthday, str) else birthday
    except InvalidBirthday:
        return birthday


def _as_moment(birthday: Any) -> Any:
    """A birthday of v1beta1 as v1alpha1 has it."""
    try:
        return f"{day_of(birthday)}T00:00:00Z" if isinstance(birthday, str) else birthday
    except InvalidBirthday:
        return birthday


def _convert(
    pet: JsonObject, *, leaving: str, entering: str, there: Callable[[Any], Any], back: Callable[[Any], Any]
) -> None:
    """Change a Pet of one version into one of the other.

    Args:
        pet: the Pet.
        leaving: the annotation for what only the version that it has can hold.
        entering: the annotation with what only the version that it gets can hold.
        there: makes a birthday of the other version from one of this version.
        back: the other way round.
    """
    spec, metadata = pet.get("spec"), pet.get("metadata")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        return
    if not isinstance(metadata.get("annotations", {}), dict | None):
        return
    brought = _take(metadata, entering)
    _take(metadata, leaving)  # of what this version had before; it has it itself, or has it no more
    left: JsonObject = {}
    if "birthday" in spec:
        birthday = spec["birthday"]
        counts = "birthday" in brought and back(brought["birthday"]) == birthday
        spec["birthday"] = brought["birthday"] if counts else there(birthday)
        if back(spec["birthday"]) != birthday:
            left["birthday"] = birthday
    if _is_owner(spec.get("owner")):
        left["owner"] = spec.pop("owner")
    if "owner" in brought:
        spec["owner"] = brought["owner"]
    _swap(spec, "type", "species")
    _leave(metadata, leaving, left)


def _swap(spec: JsonObject, one: str, other: str) -> None:
    """Let each have the other's value: a field that one version lacks is left out of the other too."""
    values = {new: spec.pop(old) for old, new in ((one, other), (other, one)) if old in spec}
    spec.update(values)


_MISSING = object()


def _take(metadata: JsonObject, key: str) -> JsonObject:
    """Take the fields of a note out of the annotations; what is no note of ours stays, and says nothing."""
    annotations = metadata.get("annotations") or {}
    fields = _read(annotations.get(key), key)
    if fields is None:
        return {}
    del annotations[key]
    before = fields.pop(_ANNOTATIONS, _MISSING)
    if isinstance(before, dict):
        annotations.update(before)
    elif not annotations and before is None:
        metadata["annotations"] = None
    elif not annotations:
        del metadata["annotations"]
    return fields


def _leave(metadata: JsonObject, key: str, fields: JsonObject) -> None:
    """Put a note of these fields among the annotations, unless there are none."""
    if not fields:
        return
    annotations = metadata.get("annotations", _MISSING)
    if annotations is None or annotations == {}:
        fields[_ANNOTATIONS] = annotations
    elif annotations is not _MISSING and key in annotations:
        fields[_ANNOTATIONS] = {key: annotations[key]}
    others = annotations if isinstance(annotations, dict) else {}
    metadata["annotations"] = {**others, key: orjson.dumps(fields).decode()}


def _read(text: Any, key: str) -> JsonObject | None:
    """The fields of the note of that key; None when the note is not ours, or damaged."""
    try:
        fields = orjson.loads(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict) or not fields.keys() & {"birthday", "owner"}:
        return None
    return fields if all(_is_sound(name, value, key) for name, value in fields.items()) else None


def _is_sound(name: str, value: Any, key: str) -> bool:
    """Whether a field of the note of that key is as `_leave` writes it."""
    match name:
        case "birthday":
            return isinstance(value, str)
        case "owner":
            return _is_owner(value)
        case "annotations":
            # Never another note: one that is in the way is used up first.
            if value is None or value == {}:
                return True
            return isinstance(value, dict) and value.keys() == {key} and _read(value[key], key) is None
    return False


def _is_owner(value: Any) -> bool:
    """Whether it is an owner as the schema of v1beta1 has it.

    A note that somebody has changed by hand must not bring what no schema would have let pass.
    """
    if not isinstance(value, dict) or value.get("email", "") is None:
        return False
    try:
        owner = PetOwner.model_validate(value, strict=True)
        orjson.dumps(value)  # fields that this program does not know may be nested too deeply
    except (ValidationError, orjson.JSONEncodeError):
        return False
    reached = owner.email is None or _ADDRESS.fullmatch(owner.email)
    return bool(reached) and bool(owner.name.strip()) and "\0" not in owner.name
