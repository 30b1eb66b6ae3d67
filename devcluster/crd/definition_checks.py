"""Validation of a definition's spec, with the real server's messages.

The server keeps properties that all versions share (and so those of a single version) at the top of the spec.
Its errors name them there, `spec.validation` for a schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from devcluster import names
from devcluster.crd.approval import APPROVAL, APPROVED, BYPASSED, approval_of, is_protected
from devcluster.crd.schema_checks import check_schema, show, version_object
from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_required,
    field_too_many,
    field_unsupported,
)
from devcluster.kinds.conditions import is_true
from devcluster.schema.node import parse
from devcluster.schema.problems import FieldPathError, resolve_field_path

Object = Mapping[str, Any]

_SHARED = {
    "schema": "spec.validation",
    "subresources": "spec.subresources",
    "additionalPrinterColumns": "spec.additionalPrinterColumns",
    "selectableFields": "spec.selectableFields",
}
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_SELECTABLE_MAXIMUM = 8
_WARNING_MAXIMUM = 256
_SELECTABLE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
    "are allowed."
)


def check_spec(new: Object, old: Object | None) -> Iterator[FieldError]:
    """Yield the errors in the spec of `new`, which replaces `old` if that is given."""
    spec = new["spec"]
    yield from _group(spec.get("group") or "")
    yield from _choice("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced"))
    versions: list[Object] = list(spec.get("versions") or ())
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield field_required(f"spec.versions[{index}].schema.openAPIV3Schema")
    shared = {key for key in _SHARED if _is_shared(versions, key)}
    for index, version in enumerate(versions):
        yield from _version(version, f"spec.versions[{index}]", shared, old)
    yield from _version_list(versions, shared)
    if versions:
        yield from _label("spec.version", versions[0].get("name") or "")
    yield from _names(spec.get("names") or {})
    if versions:
        yield from _features(versions[0], "", shared, old, any_status=any(map(_has_status, versions)))
    yield from _conversion(spec.get("conversion") or {})
    if old is not None:
        yield from _immutable(spec, old["spec"], established=is_true(dict(old), "Established"))
    yield from _approval(new, old)
    if spec.get("preserveUnknownFields") and not (old and old["spec"].get("preserveUnknownFields")):
        text = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema "
            "instead"
        )
        yield field_invalid("spec.preserveUnknownFields", True, text)


def check_stored_versions(obj: Object) -> Iterator[FieldError]:
    """Yield an error for each version that is still stored but no longer in the spec."""
    stored = list((obj.get("status") or {}).get("storedVersions") or ())
    field = "status.storedVersions"
    if not stored:
        yield field_invalid(field, None, "must have at least one stored version")
        return
    known = [each.get("name") for each in obj["spec"].get("versions") or ()]
    for version in obj["spec"].get("versions") or ():
        if version.get("storage") and version.get("name") not in stored:
            yield field_invalid(field, stored, f"must have the storage version {version.get('name')}")
    for index, name in enumerate(stored):
        if name not in known:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
            yield field_invalid(f"{field}[{index}]", name, text)


def _is_shared(versions: Sequence[Object], key: str) -> bool:
    first = versions[0].get(key) if versions else None
    return bool(first) and all(each.get(key) == first for each in versions)


def _has_schema(old: Object | None, version: Object) -> bool:
    """Return whether the version had this schema before."""
    known = old["spec"].get("versions") or () if old is not None else ()
    return any(
        each.get("name") == version.get("name") and each.get("schema") == version["schema"] for each in known
    )


def _has_status(version: Object) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _group(group: str) -> Iterator[FieldError]:
    if not group:
        yield field_required("spec.group")
    elif wrong := names.dns_subdomain(group):
        yield field_invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield field_invalid("spec.group", group, "should be a domain with at least one dot")


def _choice(field: str, value: str, known: Sequence[str]) -> Iterator[FieldError]:
    if not value:
        yield field_required(field)
    elif value not in known:
        yield field_unsupported(field, value, known)


def _label(field: str, value: str, before: str = "") -> Iterator[FieldError]:
    if wrong := names.dns_label_1035(value.lower() if before else value):
        yield field_invalid(field, value, before + ",".join(wrong))


def _version(version: Object, path: str, shared: set[str], old: Object | None) -> Iterator[FieldError]:
    yield from _label(f"{path}.name", version.get("name") or "")
    warning = version.get("deprecationWarning")
    if warning is not None:
        for text in _deprecation(warning, deprecated=bool(version.get("deprecated"))):
            yield field_invalid(f"{path}.deprecationWarning", warning, text)
    yield from _features(version, path, set(_SHARED) - shared, old, any_status=_has_status(version))


def _deprecation(warning: str, *, deprecated: bool) -> Iterator[str]:
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode()) > _WARNING_MAXIMUM:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    for index, character in enumerate(warning):
        if not character.isprintable():
            found = f"non-printable character found at index {index}"
            yield f"must only contain printable UTF-8 characters; {found}"
            return


def _features(
    version: Object, path: str, keys: set[str], old: Object | None, *, any_status: bool
) -> Iterator[FieldError]:
    """Check the `keys` of a version; they stand at the top of the spec when `path` is empty."""

    def at(key: str) -> str:
        return f"{path}.{key}" if path else _SHARED[key]

    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if "schema" in keys and isinstance(schema, Mapping):
        where = f"{at('schema')}.openAPIV3Schema"
        yield from check_schema(schema, where, status=any_status, stored=_has_schema(old, version))
    if "subresources" in keys:
        yield from _scale((version.get("subresources") or {}).get("scale"), at("subresources"))
    if "additionalPrinterColumns" in keys:
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _column(column, f"{at('additionalPrinterColumns')}[{index}]")
    if "selectableFields" in keys and version.get("selectableFields") and isinstance(schema, Mapping):
        yield from _selectable(version["selectableFields"], schema, at("selectableFields"))


def _scale(scale: Object | None, path: str) -> Iterator[FieldError]:
    if scale is None:
        return
    for key, prefix in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value, field = scale.get(key) or "", f"{path}.scale.{key}"
        if not value:
            yield field_required(field)
        elif not value.startswith("."):
            yield field_invalid(field, value, "must be a simple json path starting with .")
        elif not value.startswith(prefix):
            yield field_invalid(field, value, f"should be a json path under {prefix[:-1]}")
    selector, field = scale.get("labelSelectorPath") or "", f"{path}.scale.labelSelectorPath"
    if selector and not selector.startswith("."):
        yield field_invalid(field, selector, "must be a simple json path starting with .")
    elif selector and not selector.startswith((".spec.", ".status.")):
        yield field_invalid(field, selector, "should be a json path under either .spec or .status")


def _column(column: Object, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield field_required(f"{path}.name")
    kind, form, where = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield field_required(f"{path}.type", types)
    elif kind not in _COLUMN_TYPES:
        yield field_invalid(f"{path}.type", kind, types)
    if form and form not in _COLUMN_FORMATS:
        yield field_invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not where:
        yield field_required(f"{path}.JSONPath")
    elif not where.startswith("."):
        yield field_invalid(f"{path}.JSONPath", where, "must be a simple json path starting with .")


def _selectable(fields: Sequence[Object], schema: Object, path: str) -> Iterator[FieldError]:
    node, seen = parse(schema), set()
    for index, each in enumerate(fields):
        where, field = each.get("jsonPath") or "", f"{path}[{index}].jsonPath"
        if not where:
            yield field_required(field)
            continue
        try:
            name, found = resolve_field_path(where, node, brackets=False)
        except FieldPathError as error:
            yield field_invalid(field, where, f"is an invalid path: {error}")
            continue
        if name.split(".")[0] == "metadata":
            yield field_invalid(field, where, "must not point to fields in metadata")
        if found.type not in {"string", "boolean", "integer"}:
            yield field_invalid(field, where, _SELECTABLE)
        if name in seen:
            yield field_duplicate(field, where)
        seen.add(name)
    if len(seen) > _SELECTABLE_MAXIMUM:
        yield field_too_many(path, len(seen), _SELECTABLE_MAXIMUM)


def _version_list(versions: Sequence[Object], shared: set[str]) -> Iterator[FieldError]:
    shown = show([version_object({k: v for k, v in each.items() if k not in shared}) for each in versions])
    found = [each.get("name") for each in versions]
    if len(set(found)) < len(found):
        yield _versions(shown, "must contain unique version names")
    if sum(1 for each in versions if each.get("storage")) != 1:
        yield _versions(shown, "must have exactly one version marked as storage version")


def _versions(shown: str, text: str) -> FieldError:
    return FieldError("FieldValueInvalid", "spec.versions", f"Invalid value: {shown}: {text}")


def _names(given: Object) -> Iterator[FieldError]:
    for key in ("plural", "singular", "kind", "listKind"):
        if not given.get(key):
            yield field_required(f"spec.names.{key}")
    for key in ("plural", "singular"):
        if given.get(key):
            yield from _label(f"spec.names.{key}", given[key])
    for key in ("kind", "listKind"):
        if given.get(key):
            before = "may have mixed case, but should otherwise match: "
            yield from _label(f"spec.names.{key}", given[key], before)
    for index, name in enumerate(given.get("shortNames") or ()):
        yield from _label(f"spec.names.shortNames[{index}]", name)
    if given.get("kind") and given["kind"] == given.get("listKind"):
        yield field_invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")
    for index, name in enumerate(given.get("categories") or ()):
        yield from _label(f"spec.names.categories[{index}]", name)


def _conversion(conversion: Object) -> Iterator[FieldError]:
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook")
    path = "spec.conversion"
    yield from _choice(f"{path}.strategy", strategy, ("None", "Webhook"))
    config = (webhook or {}).get("clientConfig")
    reviews = list((webhook or {}).get("conversionReviewVersions") or ())
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield field_forbidden(f"{path}.webhookClientConfig", text)
        if reviews:
            yield field_forbidden(f"{path}.conversionReviewVersions", text)
        return
    yield from _client_config(config, f"{path}.webhookClientConfig")
    field = f"{path}.conversionReviewVersions"
    if not reviews:
        yield field_required(field)
        return
    for index, each in enumerate(reviews):
        if each in reviews[:index]:
            yield field_invalid(f"{field}[{index}]", each, "duplicate version")
        else:
            yield from _label(f"{field}[{index}]", each)
    if not set(reviews).intersection(_REVIEW_VERSIONS):
        yield field_invalid(field, reviews, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


def _client_config(config: Object | None, path: str) -> Iterator[FieldError]:
    if config is None:
        yield field_required(path, "required when strategy is set to Webhook")
        return
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield field_required(path, "exactly one of url or service is required")
    elif url is not None:
        form = "; desired format: https://host[/path]"
        parts = urlsplit(url)
        if parts.scheme != "https":
            yield field_invalid(f"{path}.url", parts.scheme, f"'https' is the only allowed URL scheme{form}")
        if not parts.netloc:
            yield field_invalid(f"{path}.url", parts.netloc, f"host must be specified{form}")
        if "@" in parts.netloc:
            yield field_invalid(f"{path}.url", parts.username, "user information is not permitted in the URL")
        if parts.fragment:
            yield field_invalid(f"{path}.url", parts.fragment, "fragments are not permitted in the URL")
        if parts.query:
            yield field_invalid(f"{path}.url", parts.query, "query parameters are not permitted in the URL")
    else:
        for key in ("name", "namespace"):
            if not (service or {}).get(key):
                yield field_required(f"{path}.service.{key}", f"service {key} is required")


def _immutable(spec: Object, before: Object, *, established: bool) -> Iterator[FieldError]:
    keys: list[tuple[str, ...]] = [("group",), ("names", "plural")]
    if established:
        keys = [("scope",), ("names", "kind"), *keys]
    for path in keys:
        value = _at(spec, path)
        if value != _at(before, path):
            yield field_invalid(f"spec.{'.'.join(path)}", value, "field is immutable")


def _at(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        value = (value or {}).get(step)
    return value


def _approval(new: Object, old: Object | None) -> Iterator[FieldError]:
    if not is_protected(new):
        return
    state, text = approval_of(new)
    if state in {APPROVED, BYPASSED} or (old is not None and approval_of(old)[0] == state):
        return
    field = f"metadata.annotations[{APPROVAL}]"
    given = (new["metadata"].get("annotations") or {}).get(APPROVAL)
    yield field_invalid(field, given, text) if given else field_required(field, text)
