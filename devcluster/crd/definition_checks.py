"""Validation of a CustomResourceDefinition's spec, with the real server's messages.

The server moves a property that is equal in all versions to the top of the spec. Its errors then name that
place, for example `spec.validation` for a schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devcluster import names
from devcluster.crd.approval import APPROVAL, APPROVED, BYPASSED, approval_of, is_protected
from devcluster.crd.schema_checks import check_schema, show, version_object
from devcluster.errors import FieldError
from devcluster.kinds.conditions import is_true
from devcluster.kinds.field import Field
from devcluster.schema.node import parse
from devcluster.schema.problems import FieldPathError, resolve_field_path

Object = Mapping[str, Any]

_SHARED = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""The properties that versions may share, and their names at the top of the spec."""
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_SELECTABLE_MAXIMUM = 8
_WARNING_MAXIMUM = 256
_SELECTABLE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
    "are allowed."
)


def check_spec(new: Object, old: Object | None) -> list[FieldError]:
    """Return the errors in the spec and the approval annotation of `new`; `old` is None for a create."""
    obj = Field(new)
    spec = obj["spec"]
    group, versions = spec.at("group", ""), spec["versions"]
    given: list[Object] = versions.value or []
    if not group:
        group.required()
    elif not _check_joined(group, names.dns_subdomain(group.value)) and "." not in group.value:
        group.invalid("should be a domain with at least one dot")
    spec["scope"].one_of(("Cluster", "Namespaced"))
    for version in versions:
        if not version["schema"]["openAPIV3Schema"].is_set:
            version["schema"]["openAPIV3Schema"].required()
    shared = {key for key in _SHARED if _is_shared(given, key)}
    for version in versions:
        _check_version(version, set(_SHARED) - shared, old)
    _check_versions(versions, given, shared)
    if given:
        _check_label(Field(given[0].get("name") or "", "version", spec))
    _check_names(spec["names"])
    if given:
        top = {key: Field(given[0].get(key), shown, spec) for key, shown in _SHARED.items() if key in shared}
        _check_features(given[0], top, old, any_status=any(map(_has_status, given)))
    _check_conversion(spec["conversion"])
    if old is not None:
        established = ("scope", "names.kind") if is_true(dict(old), "Established") else ()
        for path in (*established, "group", "names.plural"):
            spec.at(path).check_unchanged(Field(old["spec"]).at(path).value)
    _check_approval(new, old, obj)
    if spec["preserveUnknownFields"] and not (old and old["spec"].get("preserveUnknownFields")):
        spec["preserveUnknownFields"].invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema "
            "instead"
        )
    return spec.errors


def check_stored_versions(obj: Object) -> list[FieldError]:
    """Return the errors in status.storedVersions, such as a version that is no longer in the spec."""
    stored, versions = Field(obj)["status"]["storedVersions"], obj["spec"].get("versions") or ()
    if not stored:
        stored.invalid("must have at least one stored version", None)
        return stored.errors
    for version in versions:
        if version.get("storage") and version.get("name") not in stored.value:
            stored.invalid(f"must have the storage version {version.get('name')}")
    for each in stored:
        name = each.value
        if name not in [version.get("name") for version in versions]:
            each.invalid(
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
    return stored.errors


def _is_shared(versions: Sequence[Object], key: str) -> bool:
    first = versions[0].get(key) if versions else None
    return bool(first) and all(each.get(key) == first for each in versions)


def _has_schema(old: Object | None, version: Object) -> bool:
    """Return whether the version had the same schema before the update."""
    known = old["spec"].get("versions") or () if old is not None else ()
    return any(
        each.get("name") == version.get("name") and each.get("schema") == version["schema"] for each in known
    )


def _has_status(version: Object) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _check_joined(field: Field, wrong: Sequence[str], before: str = "") -> bool:
    """Report the messages of a naming rule as one error; return whether there are any messages."""
    if wrong:
        field.invalid(before + ",".join(wrong))
    return bool(wrong)


def _check_label(field: Field) -> None:
    _check_joined(field, names.dns_label_1035(field.value))


def _check_version(version: Field, keys: set[str], old: Object | None) -> None:
    _check_label(version.at("name", ""))
    warning = version["deprecationWarning"]
    if warning.is_set:
        _check_deprecation(warning, deprecated=bool(version["deprecated"]))
    fields = {key: version[key] for key in keys}
    _check_features(version.value, fields, old, any_status=_has_status(version.value))


def _check_deprecation(warning: Field, *, deprecated: bool) -> None:
    if not deprecated:
        warning.invalid("can only be set for deprecated versions")
        return
    if len(warning.value.encode()) > _WARNING_MAXIMUM:
        warning.invalid("must be <= 256 characters long")
    if not warning:
        warning.invalid("must not be an empty string")
    for index, character in enumerate(warning.value):
        if not character.isprintable():
            found = f"non-printable character found at index {index}"
            warning.invalid(f"must only contain printable UTF-8 characters; {found}")
            return


def _check_features(
    version: Object, fields: Mapping[str, Field], old: Object | None, *, any_status: bool
) -> None:
    """Check a version's schema, scale, printer columns and selectable fields, if they are in `fields`.

    A property that all versions share has a path at the top of the spec.
    """
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if "schema" in fields and isinstance(schema, Mapping):
        where = fields["schema"]["openAPIV3Schema"]
        where.errors += check_schema(schema, where.path, status=any_status, stored=_has_schema(old, version))
    if "subresources" in fields:
        _check_scale(fields["subresources"]["scale"])
    if "additionalPrinterColumns" in fields:
        for column in fields["additionalPrinterColumns"]:
            _check_column(column)
    if "selectableFields" in fields and isinstance(schema, Mapping):
        _check_selectable(fields["selectableFields"], schema)


def _check_scale(scale: Field) -> None:
    if not scale.is_set:
        return
    for key, prefix in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        path = scale[key]
        if not path:
            path.required()
        elif not path.value.startswith("."):
            path.invalid("must be a simple json path starting with .")
        elif not path.value.startswith(prefix):
            path.invalid(f"should be a json path under {prefix[:-1]}")
    selector = scale["labelSelectorPath"]
    if selector and not selector.value.startswith("."):
        selector.invalid("must be a simple json path starting with .")
    elif selector and not selector.value.startswith((".spec.", ".status.")):
        selector.invalid("should be a json path under either .spec or .status")


def _check_column(column: Field) -> None:
    kind, form, path = column["type"], column["format"], Field(column.get("jsonPath"), "JSONPath", column)
    if not column["name"]:
        column["name"].required()
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        kind.required(types)
    elif kind.value not in _COLUMN_TYPES:
        kind.invalid(types)
    if form and form.value not in _COLUMN_FORMATS:
        form.invalid(f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not path:
        path.required()
    elif not path.value.startswith("."):
        path.invalid("must be a simple json path starting with .")


def _check_selectable(fields: Field, schema: Object) -> None:
    node, seen = parse(schema) if fields else None, set()
    for each in fields:
        path = each["jsonPath"]
        if not path or node is None:
            path.required()
            continue
        try:
            name, found = resolve_field_path(path.value, node, brackets=False)
        except FieldPathError as error:
            path.invalid(f"is an invalid path: {error}")
            continue
        if name.split(".")[0] == "metadata":
            path.invalid("must not point to fields in metadata")
        if found.type not in {"string", "boolean", "integer"}:
            path.invalid(_SELECTABLE)
        if name in seen:
            path.duplicate()
        seen.add(name)
    if len(seen) > _SELECTABLE_MAXIMUM:
        fields.too_many(len(seen), _SELECTABLE_MAXIMUM)


def _check_versions(versions: Field, given: Sequence[Object], shared: set[str]) -> None:
    shown = show([version_object({k: v for k, v in each.items() if k not in shared}) for each in given])
    found = [each.get("name") for each in given]
    wrong = []
    if len(set(found)) < len(found):
        wrong.append("must contain unique version names")
    if sum(1 for each in given if each.get("storage")) != 1:
        wrong.append("must have exactly one version marked as storage version")
    versions.errors += [
        FieldError("FieldValueInvalid", versions.path, f"Invalid value: {shown}: {each}") for each in wrong
    ]


def _check_names(given: Field) -> None:
    kind, list_kind = given["kind"], given["listKind"]
    for key in ("plural", "singular", "kind", "listKind"):
        if not given[key]:
            given[key].required()
    for each in (given["plural"], given["singular"]):
        if each:
            _check_label(each)
    for each in (kind, list_kind):
        if each:
            before = "may have mixed case, but should otherwise match: "
            _check_joined(each, names.dns_label_1035(each.value.lower()), before)
    for each in given["shortNames"]:
        _check_label(each)
    if kind and kind.value == list_kind.value:
        list_kind.invalid("kind and listKind may not be the same")
    for each in given["categories"]:
        _check_label(each)


def _check_conversion(conversion: Field) -> None:
    conversion["strategy"].one_of(("None", "Webhook"))
    webhook = conversion["webhook"]
    config = Field(webhook.get("clientConfig"), "webhookClientConfig", conversion)
    reviews = Field(webhook.get("conversionReviewVersions"), "conversionReviewVersions", conversion)
    if conversion.get("strategy") != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if config.is_set:
            config.forbidden(text)
        if reviews:
            reviews.forbidden(text)
        return
    _check_client(config)
    if not reviews:
        reviews.required()
        return
    for index, each in enumerate(reviews):
        if each.value in reviews.value[:index]:
            each.invalid("duplicate version")
        else:
            _check_label(each)
    if not set(reviews.value).intersection(_REVIEW_VERSIONS):
        reviews.invalid(f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


def _check_client(config: Field) -> None:
    url, service = config["url"], config["service"]
    if not config.is_set:
        config.required("required when strategy is set to Webhook")
    elif url.is_set == service.is_set:
        config.required("exactly one of url or service is required")
    elif url.is_set:
        url.check_https()
    else:
        for key in ("name", "namespace"):
            if not service[key]:
                service[key].required(f"service {key} is required")


def _check_approval(new: Object, old: Object | None, obj: Field) -> None:
    if not is_protected(new):
        return
    state, text = approval_of(new)
    if state in {APPROVED, BYPASSED} or (old is not None and approval_of(old)[0] == state):
        return
    annotations = obj["metadata"]["annotations"]
    annotation = annotations.key(APPROVAL, annotations.get(APPROVAL))
    annotation.invalid(text) if annotation else annotation.required(text)
