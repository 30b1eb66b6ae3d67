"""Validation of an object's metadata, and of the fields that only the server may set."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from devcluster.errors import (
    FieldError,
    bad_request,
    field_forbidden,
    field_invalid,
    field_required,
    field_too_long,
)
from devcluster.names import dns_label, label_key, label_value

Metadata = dict[str, Any]
NameRule = Callable[..., list[str]]

ANNOTATIONS_MAXIMUM = 256 << 10
MANAGER_MAXIMUM = 128
SUBRESOURCE_MAXIMUM = 256
_SYSTEM_FIELDS = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_REFERENCE_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_IMMUTABLE_TEXT = "field is immutable"


def wipe(metadata: Metadata) -> None:
    """Remove the metadata fields that the creator of an object must not set."""
    for field in _SYSTEM_FIELDS:
        metadata.pop(field, None)


def match_namespace(metadata: Metadata, namespace: str) -> None:
    """Set the object's namespace to the request's; raise StatusError, 400, if both are set and differ."""
    own = metadata.get("namespace", "")
    if own == namespace:
        return
    if not namespace:
        metadata.pop("namespace", None)
    elif not own:
        metadata["namespace"] = namespace
    else:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def dedup_owner_references(metadata: Metadata) -> list[str]:
    """Remove duplicate owner references, and return their UIDs."""
    references = metadata.get("ownerReferences")
    if not references or len(references) == 1:
        return []
    kept: list[Any] = []
    dropped = []
    for reference in references:
        if reference in kept:
            dropped.append(reference.get("uid", ""))
        else:
            kept.append(reference)
    if dropped:
        metadata["ownerReferences"] = kept
    return dropped


def validate_metadata(
    metadata: Metadata,
    *,
    namespaced: bool,
    name_rule: NameRule,
    built_in: bool = False,
    before: Metadata | None = None,
) -> list[FieldError]:
    """Return the errors in an object's metadata; `built_in` kinds have stricter rules for finalizers.

    The fields in `_CHECKS` are not checked again if they are equal in `before`.
    """
    errors: list[FieldError] = []
    if generate := metadata.get("generateName"):
        errors += [
            field_invalid("metadata.generateName", generate, text)
            for text in name_rule(generate, prefix=True)
        ]
    if name := metadata.get("name"):
        errors += [field_invalid("metadata.name", name, text) for text in name_rule(name, prefix=False)]
    else:
        errors.append(field_required("metadata.name", "name or generateName is required"))
    namespace = metadata.get("namespace", "")
    if namespaced and not namespace:
        errors.append(field_required("metadata.namespace"))
    elif namespaced:
        errors += [field_invalid("metadata.namespace", namespace, text) for text in dns_label(namespace)]
    elif namespace:
        errors.append(field_forbidden("metadata.namespace", "not allowed on this type"))
    if metadata.get("generation", 0) < 0:
        errors.append(
            field_invalid("metadata.generation", metadata["generation"], "must be greater than or equal to 0")
        )
    before = before or {}
    for field, check in _CHECKS.items():
        value = metadata.get(field)
        if value and value != before.get(field):
            errors += check(value)
    if built_in:
        errors += _unqualified_finalizers(metadata.get("finalizers"))
    return errors


def validate_metadata_update(new: Metadata, old: Metadata) -> list[FieldError]:
    """Return the errors in a change of metadata; the rules are equal for all kinds."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            listed = ", ".join(json.dumps(each) for each in added)
            errors.append(
                field_forbidden(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"[]string{{{listed}}}",
                )
            )
    if not new.get("resourceVersion"):
        errors.append(field_invalid("metadata.resourceVersion", "", "must be specified for an update"))
    for field in _IMMUTABLE:
        if new.get(field) != old.get(field):
            missing = "" if field in {"name", "namespace", "uid"} else None
            errors.append(field_invalid(f"metadata.{field}", new.get(field, missing), _IMMUTABLE_TEXT))
    for field, check in _CHECKS.items():
        value = new.get(field)
        if value and field != "finalizers" and value != old.get(field):
            errors += check(value)
    return errors


def field_manager_errors(field: str, manager: str) -> list[FieldError]:
    """Return the errors in the name of a field manager."""
    if len(manager) <= MANAGER_MAXIMUM and manager.isascii() and manager.isprintable():
        return []  # the usual case
    errors = []
    if len(manager.encode()) > MANAGER_MAXIMUM:
        errors.append(field_too_long(field, MANAGER_MAXIMUM))
    position = 0
    for character in manager:
        if not _printable(character):
            shown = f"U+{ord(character):04X}"
            errors.append(
                field_invalid(field, manager, f"invalid character {shown} (at position {position})")
            )
        position += len(character.encode())
    return errors


def _printable(character: str) -> bool:
    return character == " " or unicodedata.category(character)[0] in "LMNPS"


def _labels(labels: Mapping[str, str]) -> Iterable[FieldError]:
    for key, value in labels.items():
        yield from (field_invalid("metadata.labels", key, text) for text in label_key(key))
        yield from (field_invalid("metadata.labels", value, text) for text in label_value(value))


def _annotations(annotations: Mapping[str, str]) -> Iterable[FieldError]:
    size = 0
    for key, value in annotations.items():
        yield from (field_invalid("metadata.annotations", key, text) for text in label_key(key.lower()))
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_MAXIMUM:
        yield field_too_long("metadata.annotations", ANNOTATIONS_MAXIMUM)


def _owner_references(references: list[dict[str, Any]]) -> Iterable[FieldError]:
    path = "metadata.ownerReferences"
    first = ""
    for reference in references:
        version = reference.get("apiVersion", "").rpartition("/")[2]
        kind = reference.get("kind", "")
        if not version:
            yield field_invalid(
                f"{path}.apiVersion", reference.get("apiVersion", ""), "version must not be empty"
            )
        for field in ("kind", "name", "uid"):
            if not reference.get(field):
                yield field_invalid(f"{path}.{field}", reference.get(field, ""), "must not be empty")
        if kind == "Event" and reference.get("apiVersion") == "v1":
            yield field_invalid(path, _shown(reference), "/v1, Kind=Event is disallowed from being an owner")
        if reference.get("controller"):
            shown = f"{kind}/{reference.get('name', '')}"
            if first:
                yield field_invalid(
                    path,
                    [_shown(each) for each in references],
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{first} and {shown}",
                )
            else:
                first = shown


def _shown(reference: dict[str, Any]) -> dict[str, Any]:
    return {field: reference[field] for field in _REFERENCE_FIELDS if field in reference}


def _finalizers(finalizers: list[str]) -> Iterable[FieldError]:
    path = "metadata.finalizers"
    for finalizer in finalizers:
        yield from (field_invalid(path, finalizer, text) for text in label_key(finalizer))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield field_invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


def _unqualified_finalizers(finalizers: list[str] | None) -> Iterable[FieldError]:
    for index, finalizer in enumerate(finalizers or ()):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield field_invalid(f"metadata.finalizers[{index}]", finalizer, text)


def _managed_fields(entries: list[dict[str, Any]]) -> Iterable[FieldError]:
    for index, entry in enumerate(entries):
        path = f"metadata.managedFields[{index}]"
        operation = entry.get("operation", "")
        if operation not in {"Apply", "Update"}:
            yield field_invalid(f"{path}.operation", operation, "must be `Apply` or `Update`")
        if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            yield field_invalid(f"{path}.fieldsType", entry["fieldsType"], "must be `FieldsV1`")
        yield from field_manager_errors(f"{path}.manager", entry.get("manager", ""))
        if len(entry.get("subresource", "").encode()) > SUBRESOURCE_MAXIMUM:
            yield field_too_long(f"{path}.subresource", SUBRESOURCE_MAXIMUM)


_CHECKS: Final[dict[str, Callable[[Any], Iterable[FieldError]]]] = {
    "labels": _labels,
    "annotations": _annotations,
    "ownerReferences": _owner_references,
    "finalizers": _finalizers,
    "managedFields": _managed_fields,
}
