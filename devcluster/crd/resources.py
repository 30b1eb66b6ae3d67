"""Resources that a CustomResourceDefinition defines: their defaults, validation and version conversion."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

import functools
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import orjson

from devcluster import names
from devcluster.crd.json_path import nested
from devcluster.errors import FieldError, StatusError, field_invalid, field_required
from devcluster.kinds.registry import version_priority
from devcluster.kinds.resource import Column, Convert, Resource, ScalePaths
from devcluster.kinds.strategy import Context, Strategy
from devcluster.names import label_key
from devcluster.schema.defaulting import compile_defaults, drop_nulls
from devcluster.schema.node import UNSET, Schema, parse
from devcluster.schema.rules import compile_rules
from devcluster.schema.validation import Validator, compile_uniqueness
from devcluster.schema.versions import CustomVersions
from devcluster.types.codec import DecodeError
from devcluster.types.decode import convert

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
    """Strategy of one version of a custom kind: defaults and validation by its CustomResourceDefinition."""

    unconditional_update = False
    has_generation = True
    status_reset = ("spec", "metadata")

    def __init__(self, schema: Schema, *, status: bool, scale: ScalePaths | None = None) -> None:
        """Compile the schema.

        Args:
            schema: The version's schema, from the CustomResourceDefinition.
            status: Whether the version has a status subresource.
            scale: The paths of the scale subresource's fields, or None without this subresource.
        """
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
        return {
            name: value
            for name, value in obj.items()
            if name != "metadata" and name not in self.status_fields
        }

    def prepare_create(self, new: Object, context: Context) -> None:
        super().prepare_create(new, context)
        self._default_status(new)

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_update(new, old, context)
        self._default_status(new)

    def prepare_status_update(self, new: Object, old: Object, context: Context) -> None:
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
        drop_nulls(obj, self._schema, root=True)
        self.default_applied(obj)

    def default_applied(self, obj: Object) -> None:
        if self._fill is not None:
            self._fill(obj)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        errors = self._validator.validate(new)
        errors += self._check_scale(new, spec=True)
        errors += check_embedded(new, self._schema)
        if self._uniqueness is not None:
            self._uniqueness(new, "", errors)
        return self._with_rules(errors, new, None)

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        errors = self._validator.validate(new, old)
        errors += self._check_scale(new, spec=True)
        errors += check_embedded(new, self._schema)
        errors += self._check_lists(new, old)
        return self._with_rules(errors, new, old)

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        errors: list[FieldError] = []
        if "status" in new and self._status_validator is not None:
            errors = self._status_validator.validate(new["status"], old.get("status"))
        errors += self._check_scale(new, spec=False)
        errors += self._check_lists(new, old)
        return self._with_rules(errors, new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        before = set((old or {}).get("metadata", {}).get("finalizers") or ())
        added = sorted(set(new["metadata"].get("finalizers") or ()) - before)
        found = [warning for name in added for warning in _finalizer_warnings(name)]
        if old is not None and self._rules is not None:
            found += map(str, self._rules.validate(new, old).forgiven)
        return found

    def _default_status(self, obj: Object) -> None:
        """Fill in the default of a missing status, as the real server does when it next reads the object."""
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


_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def check_embedded(obj: Any, schema: Schema, path: str = "") -> list[FieldError]:
    """Return the errors in the embedded objects of `obj`; `path` is the path of `obj`."""
    if not (schema.embedded or _has_embedded(schema)):
        return []
    return [error for value, at in _embedded(obj, schema, path) for error in _object(value, at)]


def coerce_embedded(obj: Any, schema: Schema) -> list[str]:
    """Decode the metadata of the embedded objects in `obj`, in place.

    Returns:
        the paths of fields that ObjectMeta does not have.

    Raises:
        ValueError: a field cannot be decoded; the message has the reason.
    """
    unknown: list[str] = []
    if _has_embedded(schema):
        for value, path in _embedded(obj, schema, ""):
            unknown += _coerce(value, path)
    return unknown


@functools.lru_cache(maxsize=1024)
def _has_embedded(schema: Schema) -> bool:
    below = [*schema.properties.values(), schema.items, schema.additional]
    return any(each is not None and (each.embedded or _has_embedded(each)) for each in below)


def _embedded(value: Any, schema: Schema | None, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the embedded objects (x-kubernetes-embedded-resource) in a value, each with its path."""
    if schema is None:
        return
    if type(value) is dict:
        if schema.embedded:
            yield value, path
        for name, each in value.items():
            if name in schema.properties:
                yield from _embedded(each, schema.properties[name], f"{path}.{name}" if path else name)
            elif schema.additional is not None:
                yield from _embedded(each, schema.additional, f"{path}[{name}]")
    elif type(value) is list:
        for index, each in enumerate(value):
            yield from _embedded(each, schema.items, f"{path}[{index}]")


def _coerce(value: dict[str, Any], path: str) -> list[str]:
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name, ""), str):
            raise ValueError(field_invalid(f"{path}.{name}", value[name], "must be a string"))  # noqa: TRY004
    metadata = value.get("metadata")
    if metadata is None:
        return []
    try:
        value["metadata"], problems = convert(metadata, _OBJECT_META)
    except DecodeError as error:
        shown = dict(sorted(metadata.items())) if isinstance(metadata, dict) else metadata
        raise ValueError(field_invalid(f"{path}.metadata", shown, str(error))) from error
    return [f"{path}.metadata.{problem.split(chr(34))[1]}" for problem in problems]


def _object(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    try:
        _coerce(dict(value), path)
    except ValueError as error:
        yield error.args[0]
        return
    for name in ("apiVersion", "kind"):
        field = f"{path}.{name}"
        given = value.get(name)
        if name not in value:
            yield field_required(field)
        elif not given:
            yield field_invalid(field, given, "must not be empty")
        elif name == "apiVersion" and given.count("/") > 1:
            yield field_invalid(field, given, f"unexpected GroupVersion string: {given}")
        elif name == "kind" and (wrong := names.dns_label_1035(given.lower())):
            text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            yield field_invalid(field, given, text)
    metadata = value.get("metadata")
    given = metadata.get("name") if isinstance(metadata, dict) else None
    for wrong_text in names.path_segment(given) if given else ():
        yield field_invalid(f"{path}.metadata.name", given, wrong_text)


CallWebhook = Callable[[Object, Object, float], Awaitable[Object]]
"""Posts a review to a webhook, given (client config, review, timeout in seconds); returns its answer."""

_TIMEOUT = 30.0
_GROUP = "apiextensions.k8s.io"
_REVIEW_VERSIONS = ("v1", "v1beta1")


def webhook_conversion(conversion: Mapping[str, Any], call: CallWebhook) -> Convert:
    """Return a function that converts objects through the webhook in `spec.conversion` of a definition.

    The function raises StatusError, 500, when the webhook fails or returns an invalid response.
    """
    webhook = conversion["webhook"]
    config = dict(webhook.get("clientConfig") or {})
    reviews = webhook.get("conversionReviewVersions") or ()
    version = next((each for each in reviews if each in _REVIEW_VERSIONS), "v1")

    async def convert(objects: list[Object], wanted: str) -> list[Object]:
        due = [each for each in objects if each.get("apiVersion") != wanted]
        if not due:
            return objects
        api_version, kind = due[0].get("apiVersion", ""), due[0].get("kind", "")
        about = f"{api_version}, Kind={kind}"
        identity = str(uuid.uuid4())
        review = {
            "apiVersion": f"{_GROUP}/{version}",
            "kind": "ConversionReview",
            "request": {
                "uid": identity,
                "desiredAPIVersion": wanted,
                "objects": [_unversioned(each) for each in due],
            },
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        try:
            answer = await call(config, review, _TIMEOUT)
            converted = _read(answer, identity, f"{_GROUP}/{version}")
        except StatusError:
            raise
        except Exception as error:
            raise _failed(f"conversion webhook for {about} failed: {error}") from error
        if len(converted) != len(due):
            text = f"conversion webhook for {about} returned {len(converted)} objects, expected {len(due)}"
            raise _failed(text)
        checked = iter(
            [
                _check(
                    before,
                    after,
                    wanted,
                    f"conversion webhook for {about} returned invalid converted object at index {index}",
                )
                for index, (before, after) in enumerate(zip(due, converted, strict=True))
            ]
        )
        return [each if each.get("apiVersion") == wanted else next(checked) for each in objects]

    return convert


def _unversioned(obj: Object) -> Object:
    metadata = {
        name: value for name, value in (obj.get("metadata") or {}).items() if name != "resourceVersion"
    }
    return {**obj, "metadata": metadata}


class _Refused(Exception):
    """Error for a response that is not a valid conversion."""


def _read(answer: Object, identity: str, api_version: str) -> list[Object]:
    kind = answer.get("kind", "")
    if kind not in {"", "ConversionReview"}:
        where = f'for version "{answer.get("apiVersion", "")}" in scheme "pkg/runtime/scheme.go:111"'
        raise _Refused(f'no kind "{kind}" is registered {where}')
    given = f"{answer.get('apiVersion', '')}, Kind={kind}"
    if given != f"{api_version}, Kind=ConversionReview":
        raise _Refused(f"expected webhook response of {api_version}, Kind=ConversionReview, got {given}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _Refused("no response provided")
    if api_version.endswith("/v1") and response.get("uid") != identity:
        raise _Refused(f'expected response.uid="{identity}", got "{response.get("uid") or ""}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        raise _Refused(
            result.get("message")
            or f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        )
    return list(response.get("convertedObjects") or ())


def _check(before: Object, after: Any, wanted: str, about: str) -> Object:
    if not isinstance(after, dict):
        raise _failed(f"{about}: invalid type")
    if after.get("apiVersion") != wanted:
        given = after.get("apiVersion") or ""
        raise _failed(f"{about}: invalid groupVersion (expected {wanted}, received {given})")
    if after.get("kind") != before.get("kind"):
        text = f"invalid kind (expected {before.get('kind')}, received {after.get('kind') or ''})"
        raise _failed(f"{about}: {text}")
    metadata, old = after.get("metadata"), before.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _failed(
            f"{about.replace('converted object', 'metadata in object')}: missing metadata in converted object"
        )
    for key, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (metadata.get(key) or "") != (old.get(key) or ""):
            text = f"must have the same {shown}: {old.get(key) or ''} != {metadata.get(key) or ''}"
            raise _failed(f"{about}: {text}")
    # A conversion may change only the labels and annotations in the metadata.
    kept = {key: value for key, value in old.items() if key not in {"labels", "annotations"}}
    for key in ("labels", "annotations"):
        if metadata.get(key):
            kept[key] = metadata[key]
    return {**after, "metadata": kept}


def _failed(text: str) -> StatusError:
    return StatusError(500, "", text)


def resources_of(
    definition: Object, *, metadata: Schema | None = None, call_webhook: CallWebhook | None = None
) -> list[Resource]:
    """Return the resources that a definition defines, one for each served version.

    Args:
        definition: The CustomResourceDefinition; without `status.acceptedNames`, the names of its spec count.
        metadata: The schema of ObjectMeta.
        call_webhook: Function that calls conversion webhooks. None means that a conversion only changes
            `apiVersion`.
    """
    spec = definition["spec"]
    names = (definition.get("status") or {}).get("acceptedNames") or spec["names"]
    stored = next(each["name"] for each in spec["versions"] if each.get("storage"))
    conversion = spec.get("conversion") or {}
    convert = None
    if conversion.get("strategy") == "Webhook" and call_webhook is not None:
        convert = webhook_conversion(conversion, call_webhook)
    versions = _versions(definition)
    return [
        Resource(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            list_kind=names.get("listKind") or f"{names['kind']}List",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            namespaced=spec["scope"] == "Namespaced",
            storage_version=stored,
            convert=convert,
            custom=True,
            custom_versions=versions,
            closing="deletionTimestamp" in definition["metadata"],
            deprecation=_deprecation(version, spec, names["kind"]),
            selectable_fields=tuple(each["jsonPath"] for each in version.get("selectableFields") or ()),
            **_parts(version, metadata),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def _parts(version: Object, metadata: Schema | None) -> dict[str, Any]:
    source = _source(version)
    subresources = version.get("subresources") or {}
    status, scale = subresources.get("status") is not None, _scale(subresources.get("scale"))
    schema, strategy = _made_of(orjson.dumps(source), metadata, status, scale)
    return {
        "schema": schema,
        "strategy": strategy,
        "subresources": tuple(
            name for name, there in (("status", status), ("scale", scale is not None)) if there
        ),
        "scale": scale,
        "columns": tuple(_column(each) for each in version.get("additionalPrinterColumns") or ()),
    }


@functools.lru_cache(maxsize=64)
def _made_of(
    source: bytes, metadata: Schema | None, status: bool, scale: ScalePaths | None
) -> tuple[Schema, CustomStrategy]:
    """Parse the schema of a CustomResourceDefinition; cached, since clusters may share definitions."""
    bare = _parsed(source)
    schema = bare if metadata is None else parse(bare.source, metadata=metadata)
    return schema, CustomStrategy(bare, status=status, scale=scale)


@functools.lru_cache(maxsize=64)
def _parsed(source: bytes) -> Schema:
    return parse(orjson.loads(source))


def _scale(scale: Object | None) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(
        scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or ""
    )


def _column(column: Object) -> Column:
    path = column["jsonPath"]
    return Column(
        column["name"],
        column["type"],
        column.get("format") or "",
        column.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        column.get("priority") or 0,
        path,
    )


def _versions(definition: Object) -> CustomVersions:
    spec, metadata = definition["spec"], definition["metadata"]
    # Objects written after the last change of the CustomResourceDefinition have the current schema.
    changed = metadata.get("generation", 1) > 1
    schemas = {
        f"{spec['group']}/{each['name']}": _parsed(orjson.dumps(_source(each))) for each in spec["versions"]
    }
    return CustomVersions(
        schemas,
        stale_until=int(metadata.get("resourceVersion") or 0) if changed else 0,
    )


def _source(version: Object) -> Object:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _deprecation(version: Object, spec: Object, kind: str) -> str:
    """Return the warning about a deprecated version and the best newer one; "" if it is not deprecated."""
    if not version.get("deprecated"):
        return ""
    if given := version.get("deprecationWarning"):
        return str(given)
    above = [
        each["name"]
        for each in spec["versions"]
        if each.get("served")
        and not each.get("deprecated")
        and version_priority(each["name"]) < version_priority(version["name"])
    ]
    group = spec["group"]
    better = f"; use {group}/{min(above, key=version_priority)} {kind}" if above else ""
    return f"{group}/{version['name']} {kind} is deprecated{better}"
