"""Conversion of Pets between v1alpha1 and v1beta1, as plain JSON and without loss.

An annotation (the note) stores values that the target version cannot represent: v1alpha1's birthday text
unless it ends with T00:00:00Z, and v1beta1's owner. The conversion back removes the note, and restores the
birthday's text only if the present birthday is still the same day, so that no user's change is undone.

Objects arrive before schema validation. Unreadable values stay unchanged, so that the schema refuses them.
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
"""The annotation with v1alpha1's values that v1beta1 lacks: {"birthday":"2021-04-01T12:00:00Z"}."""

FROM_V1BETA1 = "petstore.example.com/v1beta1"
"""The annotation with v1beta1's values that v1alpha1 lacks: {"owner":{"name":"Ann"}}."""

_ADDRESS = re.compile(ADDRESS_PATTERN)

_LONGEST = 256 * 1024
"""The maximum length of a note: the API server stores no longer ones, and parsing would take time."""

_MOST = _LONGEST - 4096
"""The maximum size of a Pet's annotations in bytes: the API server's, less 4 KiB for notes."""

_ANNOTATIONS = "annotations"
"""The note's field for the annotations that a plain removal of the note would not restore.

Its value is the annotation that the note has replaced, by key; or `{}` or null if the annotations were so."""


def v1alpha1_to_v1beta1(pet: JsonObject) -> None:
    """Convert a v1alpha1 Pet to v1beta1 in place, except for its apiVersion."""
    _convert(pet, leaving=FROM_V1ALPHA1, entering=FROM_V1BETA1, there=_as_day, back=_as_moment)


def v1beta1_to_v1alpha1(pet: JsonObject) -> None:
    """Convert a v1beta1 Pet to v1alpha1 in place, except for its apiVersion."""
    _convert(pet, leaving=FROM_V1BETA1, entering=FROM_V1ALPHA1, there=_as_moment, back=_as_day)


def size_of_annotations(pet: Pet) -> int:
    """Return the bytes of the annotations in the version in which they are larger."""
    # Only a part is converted, because managedFields may be nested too deeply for encoding.
    shown = {**pet.to_wire(only={"spec"}), "metadata": {"annotations": dict(pet.metadata.annotations)}}
    v1beta1_to_v1alpha1(shown)
    both = pet.metadata.annotations, shown["metadata"].get("annotations") or {}
    return max(len("".join(chain(*each.items())).encode()) for each in both)


def check_room(pet: Pet) -> None:
    """Raise Refused if the Pet's annotations have more than `_MOST` bytes in one of the versions."""
    if (size := size_of_annotations(pet)) > _MOST:
        reason = f"may have {_MOST} bytes of the 256 KiB, with notes about the other version, not {size}"
        raise Refused(forbidden("metadata.annotations", reason))


def _as_day(birthday: Any) -> Any:
    try:
        return day_of_moment(birthday).isoformat() if isinstance(birthday, str) else birthday
    except InvalidBirthday:
        return birthday


def _as_moment(birthday: Any) -> Any:
    try:
        return f"{day_of(birthday)}T00:00:00Z" if isinstance(birthday, str) else birthday
    except InvalidBirthday:
        return birthday


def _convert(
    pet: JsonObject, *, leaving: str, entering: str, there: Callable[[Any], Any], back: Callable[[Any], Any]
) -> None:
    """Convert a Pet from one version to the other, in place.

    Args:
        pet: the Pet.
        leaving: the annotation for values that only the old version can represent.
        entering: the annotation with values that only the new version can represent.
        there: converts a birthday from the old version to the new one.
        back: converts a birthday from the new version to the old one.
    """
    spec, metadata = pet.get("spec"), pet.get("metadata")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        return
    if not isinstance(metadata.get("annotations", {}), dict | None):
        return
    brought = _take(metadata, entering)
    _take(metadata, leaving)  # outdated: the old version's object has the value itself, or lost it
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
    values = {new: spec.pop(old) for old, new in ((one, other), (other, one)) if old in spec}
    spec.update(values)


_MISSING = object()


def _take(metadata: JsonObject, key: str) -> JsonObject:
    """Remove a note from the annotations and return its fields; other annotations are not changed."""
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
    """Parse the note under that key; None if it is missing or damaged, or is another program's annotation."""
    try:
        fields = orjson.loads(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict) or not fields.keys() & {"birthday", "owner"}:
        return None
    return fields if all(_is_sound(name, value, key) for name, value in fields.items()) else None


def _is_sound(name: str, value: Any, key: str) -> bool:
    """Return whether a field of the note under that key has the form that `_leave` writes."""
    match name:
        case "birthday":
            return isinstance(value, str)
        case "owner":
            return _is_owner(value)
        case "annotations":
            # The value is never another note, because an earlier note is removed first.
            if value is None or value == {}:
                return True
            return isinstance(value, dict) and value.keys() == {key} and _read(value[key], key) is None
    return False


def _is_owner(value: Any) -> bool:
    """Return whether the value is a valid owner in v1beta1's schema.

    A user may have changed the note, and a conversion must not add a value that the schema would refuse.
    """
    if not isinstance(value, dict) or value.get("email", "") is None:
        return False
    try:
        owner = PetOwner.model_validate(value, strict=True)
        orjson.dumps(value)  # unknown fields may be nested too deeply
    except (ValidationError, orjson.JSONEncodeError):
        return False
    reached = owner.email is None or _ADDRESS.fullmatch(owner.email)
    return bool(reached) and bool(owner.name.strip()) and "\0" not in owner.name
