"""Defaults and validation of CustomResourceDefinitions, also for a definition outside of a server."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from devcluster import names
from devcluster.crd.definition_checks import check_spec, check_stored_versions
from devcluster.crd.resources import resources_of
from devcluster.errors import FieldError, field_invalid
from devcluster.kinds.conditions import update_condition
from devcluster.kinds.metadata import validate_metadata
from devcluster.kinds.resource import Column, Resource
from devcluster.kinds.strategy import Context, Strategy
from devcluster.schema.formats import is_known_format
from devcluster.types import schema_for, schema_of
from devcluster.types.codec import DecodeError
from devcluster.types.decode import convert

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

Object = dict[str, Any]

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"


def _check(new: Object, old: Object | None) -> list[FieldError]:
    return [*check_spec(new, old), *check_stored_versions(new)]


def _check_and_compile(new: Object, old: Object | None) -> list[FieldError]:
    """Return the errors in a CustomResourceDefinition; for a valid one, fill the cache of `resources_of`."""
    errors = _check(new, old)
    if not errors:
        with contextlib.suppress(Exception):  # the failure repeats, and is logged, when the CRD is served
            resources_of(new, metadata=schema_of(OBJECT_META))
    return errors


def check_definition(definition: Object) -> Iterator[tuple[str, str]]:
    """Yield each reason why the server would refuse a CustomResourceDefinition, as (field, message)."""
    try:
        new, _ = convert(definition, _DEFINITION)
    except DecodeError as error:
        yield "", str(error)
        return
    strategy = DefinitionStrategy()
    strategy.default(new)
    metadata = validate_metadata(
        new["metadata"], namespaced=False, name_rule=names.dns_subdomain, built_in=True
    )
    for each in [*metadata, *_check_name(new), *_check(new, None)]:
        yield each.field, each.text


class DefinitionStrategy(Strategy):
    """Strategy of CustomResourceDefinitions: the API server's defaults, validation and table rows."""

    slow_checks = True
    unconditional_update = False
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        given = spec.setdefault("names", {})
        kind = given.get("kind") or ""
        if not given.get("singular") and kind:
            given["singular"] = kind.lower()
        if not given.get("listKind") and kind:
            given["listKind"] = f"{kind}List"
        conversion = spec.get("conversion")
        if conversion is None:
            spec["conversion"] = {"strategy": "None"}
        else:
            service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
            if service is not None and service.get("port") is None:
                service["port"] = 443
        status = obj.setdefault("status", {})
        if not status.get("storedVersions"):
            stored = _storage_version(obj)
            if stored is not None:
                status["storedVersions"] = [stored]

    def prepare_create(self, new: Object, context: Context) -> None:
        super().prepare_create(new, context)
        new["status"] = _fresh_status(new)

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_update(new, old, context)
        status = new["status"] = dict(new.get("status") or {})
        stored = _storage_version(new)
        before = list(status.get("storedVersions") or ())
        if stored is not None and stored not in before:
            status["storedVersions"] = [*before, stored]

    def prepare_delete(self, obj: Object, context: Context) -> bool:
        metadata = obj["metadata"]
        metadata["deletionTimestamp"] = context.now
        finalizers = metadata.setdefault("finalizers", [])
        if CLEANUP_FINALIZER not in finalizers:
            finalizers.append(CLEANUP_FINALIZER)
        message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        update_condition(obj, "Terminating", "True", "InstanceDeletionPending", message, context.now)
        return True

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        return [*_check_name(new), *_check_and_compile(new, None)]

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        return _check_and_compile(new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        before = set(_unknown_formats(old)) if old is not None else set()
        return [f'unrecognized format "{each}"' for each in _unknown_formats(new) if each not in before]

    def row(self, obj: Object) -> list[Any]:
        return [obj["metadata"].get("name", ""), obj["metadata"].get("creationTimestamp")]


def _storage_version(obj: Object) -> str | None:
    return next((each.get("name") for each in obj["spec"].get("versions") or () if each.get("storage")), None)


def _fresh_status(obj: Object) -> Object:
    stored = _storage_version(obj)
    versions = [stored] if stored is not None else None
    # This includes the fields that Go writes for an empty status.
    return {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": versions}


def _check_name(obj: Object) -> Iterator[FieldError]:
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    wanted = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
    if name != wanted and not names.dns_subdomain(name):
        yield field_invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _unknown_formats(obj: Object) -> Iterator[str]:
    for version in obj["spec"].get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if isinstance(schema, Mapping):
            yield from _formats_in(schema)


def _formats_in(schema: Mapping[str, Any]) -> Iterator[str]:
    form = schema.get("format")
    if form and not is_known_format(form, schema.get("type") or ""):
        yield form
    below = [schema.get("items"), schema.get("not"), schema.get("additionalProperties")]
    below += (schema.get("properties") or {}).values()
    for junction in ("allOf", "anyOf", "oneOf"):
        below += schema.get(junction) or ()
    for each in below:
        if isinstance(each, Mapping):
            yield from _formats_in(each)


def definitions_resource() -> Resource:
    """Return the resource of CustomResourceDefinitions."""
    group, version, kind = "apiextensions.k8s.io", "v1", "CustomResourceDefinition"
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural="customresourcedefinitions",
        singular="customresourcedefinition",
        list_kind="CustomResourceDefinitionList",
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        namespaced=False,
        schema=schema_for(group, version, kind),
        strategy=DefinitionStrategy(),
        columns=(Column("Name", format="name"), Column("Created At", type="date")),
        subresources=("status",),
        storage_version=version,
    )
