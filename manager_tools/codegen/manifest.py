"""Generation of CustomResourceDefinitions from models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manager.api import Column, CrdOptions, Resource, Scale, crd_options
from manager.api.crd import conflict_of_kinds
from manager.webhook.configurations import ClientConfig, by_service, conversion_by
from manager.webhook.registration import Conversion
from manager_tools.codegen.model_schema import JsonSchema, ModelError
from manager_tools.codegen.server_checks import check_definition
from manager_tools.codegen.structural import structural_schema

_OPEN_ENDED = ("additionalProperties", "x-kubernetes-preserve-unknown-fields")
# The API server manages metadata in every object, so the schema does not describe its fields.
_METADATA = ".metadata"


def leads_somewhere(path: str, schema: JsonSchema) -> bool:
    """Return whether an object of the schema can have a field at the path.

    The server accepts a column whose path leads to no field, and shows the column empty. Paths with brackets
    (filters, indexes, quoted names) are checked up to the bracket.
    """
    if path == _METADATA or path.startswith(_METADATA + "."):
        return True
    if not path.startswith("."):
        return False
    at = schema
    for name in path[1:].split("."):
        plain, bracket, _ = name.partition("[")
        if plain not in (at.get("properties") or {}):
            return any(word in at for word in _OPEN_ENDED)
        if bracket:
            return True
        at = at["properties"][plain]
    return True


Manifest = dict[str, Any]

UNPLACED = by_service("system", "webhook-service")
"""The Service's name and namespace before kustomize changes them."""

_AGE = Column("Age", "date", ".metadata.creationTimestamp")


def custom_resource_definitions(
    kinds: Iterable[type[Resource]],
    conversions: Iterable[Conversion] = (),
    client_config: ClientConfig = UNPLACED,
    *,
    max_description: int | None = None,
) -> list[Manifest]:
    """Return a CustomResourceDefinition for each group and kind, with all its versions in `kinds`.

    The order follows `kinds`. The definition of a kind with a conversion refers to the webhook at
    `client_config`. `max_description` limits the characters of the fields' descriptions, and 0 omits them.

    Raises ModelError if a model has no structural schema, if versions or a conversion of a kind do not match,
    or if the API server would refuse the definition.
    """
    kinds = tuple(dict.fromkeys(kinds))
    if (conflict := conflict_of_kinds(kinds)) is not None:
        raise ModelError(*conflict)
    grouped: dict[tuple[str, str], list[type[Resource]]] = {}
    for kind in kinds:
        grouped.setdefault((kind.gvk.group, kind.gvk.kind), []).append(kind)
    converted: dict[tuple[str, str], Conversion] = {}
    for conversion in conversions:
        key = conversion.hub.gvk.group, conversion.hub.gvk.kind
        _check_conversion(conversion, grouped.get(key, ()))
        converted[key] = conversion
    definitions = [
        _definition(versions, converted.get(key), client_config) for key, versions in grouped.items()
    ]
    for version in (each for made in definitions for each in made["spec"]["versions"]):
        if max_description is not None:
            _shorten_descriptions(version["schema"]["openAPIV3Schema"], max_description)
    return definitions


def _shorten_descriptions(schema: JsonSchema, limit: int) -> None:
    """Cut each description after the last sentence, or else the last word, that ends within the limit."""
    text = schema.get("description", "")
    if not limit:
        schema.pop("description", None)
    elif len(text) > limit:
        sentences, end, _ = text[: limit + 1].rpartition(". ")
        words = text[: limit + 1].rpartition(" ")[0].rstrip() or text[:limit]
        schema["description"] = f"{sentences}." if end else words
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for each in inner:
        if isinstance(each, dict):
            _shorten_descriptions(each, limit)


def _definition(
    kinds: Sequence[type[Resource]], conversion: Conversion | None, client_config: ClientConfig
) -> Manifest:
    stored = _check_versions(kinds)
    options = crd_options(stored)
    group = stored.gvk.group
    said = {"annotations": dict(options.annotations), "labels": dict(options.labels)}
    definition: Manifest = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{stored.plural}.{group}",
            **{word: each for word, each in said.items() if each},
        },
        "spec": {
            "group": group,
            "names": _names(stored, options),
            "scope": "Namespaced" if stored.namespaced else "Cluster",
            "versions": [_version(kind) for kind in kinds],
            **({} if conversion is None else {"conversion": conversion_by(client_config)}),
        },
    }
    check_definition(definition, stored.gvk.kind)
    return definition


def _check_versions(kinds: Sequence[type[Resource]]) -> type[Resource]:
    first = kinds[0]
    name = first.gvk.kind
    if not first.gvk.group:
        raise ModelError(name, "a kind of the core group cannot be defined by a custom resource definition")
    versions = [kind.gvk.version for kind in kinds]
    for kind in kinds:
        if (kind.plural, kind.namespaced) != (first.plural, first.namespaced):
            raise ModelError(name, "all versions of a kind have the same plural and the same scope")
    for kind in kinds:
        _check_options(kind, crd_options(kind))
    stored = [kind for kind in kinds if crd_options(kind).storage]
    if len(stored) != 1:
        raise ModelError(name, f"of the versions {', '.join(versions)}, exactly one must have storage=True")
    for kind in kinds:
        for option in _OF_THE_DEFINITION:
            told = getattr(crd_options(kind), option)
            if told and told != getattr(crd_options(stored[0]), option):
                has = f"{stored[0].gvk.version} is stored, and has another"
                raise ModelError(name, f"{option} of {kind.gvk.version} has no effect: {has}")
    return stored[0]


_TEXT_LISTS = ("short_names", "categories", "selectable_fields")
_TEXT_MAPS = ("annotations", "labels")
_TEXTS = ("singular", "list_kind", "deprecated")
_OF_THE_DEFINITION = ("short_names", "categories", "singular", "list_kind", *_TEXT_MAPS)


def _check_options(kind: type[Resource], options: CrdOptions) -> None:
    """Raise ModelError with the parameter's name for a value of the wrong type.

    Without this check, each letter of a string would be taken for a name, if the parameter is a tuple of
    names.
    """
    name = kind.gvk.kind
    for option in _TEXT_LISTS:
        value = getattr(options, option)
        if not isinstance(value, tuple | list) or not all(isinstance(each, str) for each in value):
            raise ModelError(name, f"{option} of @crd() has to be a tuple of texts, not {value!r}")
    if options.scale is not None and not isinstance(options.scale, Scale):
        raise ModelError(name, f"scale of @crd() has to be a Scale, not {options.scale!r}")
    if not all(isinstance(each, Column) for each in options.columns):
        raise ModelError(name, f"columns of @crd() has to be a tuple of Column, not {options.columns!r}")
    for option in _TEXT_MAPS:
        value = getattr(options, option)
        if not isinstance(value, Mapping) or not all(
            isinstance(each, str) for each in (*value, *value.values())
        ):
            raise ModelError(name, f"{option} of @crd() has to map texts to texts, not be {value!r}")
    for option in _TEXTS:
        value = getattr(options, option)
        if not isinstance(value, str | None):
            raise ModelError(name, f"{option} of @crd() has to be a text, not {value!r}")
        if value == "" and option != "deprecated":
            raise ModelError(name, f"{option} of @crd() is empty")


def _check_conversion(conversion: Conversion, kinds: Sequence[type[Resource]]) -> None:
    hub = conversion.hub
    name = hub.gvk.kind
    if hub not in kinds:
        raise ModelError(
            name, f"{hub.gvk.version} is the hub of the conversion, but is not among the versions"
        )
    if not crd_options(hub).storage:
        raise ModelError(
            name, f"{hub.gvk.version} is the hub of the conversion, so it must have storage=True"
        )
    for kind in kinds:
        if kind is not hub and kind not in conversion.spokes:
            raise ModelError(name, f"there is no conversion between {hub.gvk.version} and {kind.gvk.version}")
    for spoke in conversion.spokes:
        if spoke not in kinds:
            raise ModelError(name, f"{spoke.gvk.version} can be converted, but is not among the versions")


def _names(kind: type[Resource], options: CrdOptions) -> Manifest:
    names: Manifest = {
        "kind": kind.gvk.kind,
        "listKind": options.list_kind or f"{kind.gvk.kind}List",
        "plural": kind.plural,
        "singular": options.singular or kind.gvk.kind.lower(),
    }
    if options.short_names:
        names["shortNames"] = list(options.short_names)
    if options.categories:
        names["categories"] = list(options.categories)
    return names


def _version(kind: type[Resource]) -> Manifest:
    options = crd_options(kind)
    schema = structural_schema(kind)
    version: Manifest = {"name": kind.gvk.version, "served": options.served, "storage": options.storage}
    if options.deprecated is not None:
        version["deprecated"] = True
        version["deprecationWarning"] = options.deprecated
    columns = (*options.columns, _AGE) if options.age else options.columns
    if columns:
        version["additionalPrinterColumns"] = [_column(column, kind, schema) for column in columns]
    for path in options.selectable_fields:
        _check_path(path, "selectable_fields of @crd()", kind, schema)
    if options.selectable_fields:
        version["selectableFields"] = [{"jsonPath": path} for path in options.selectable_fields]
    subresources = _subresources(options, kind, schema)
    if subresources:
        version["subresources"] = subresources
    version["schema"] = {"openAPIV3Schema": schema}
    return version


def _column(column: Column, kind: type[Resource], schema: JsonSchema) -> Manifest:
    _check_path(column.json_path, f"column {column.name}", kind, schema)
    printed: Manifest = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.description:
        printed["description"] = column.description
    if column.format is not None:
        printed["format"] = column.format
    if column.priority:
        printed["priority"] = column.priority
    return printed


def _subresources(options: CrdOptions, kind: type[Resource], schema: JsonSchema) -> Manifest:
    subresources: Manifest = {}
    if options.status:
        subresources["status"] = {}
    if options.scale is not None:
        scale = {"specReplicasPath": options.scale.spec_path, "statusReplicasPath": options.scale.status_path}
        if options.scale.selector_path is not None:
            scale["labelSelectorPath"] = options.scale.selector_path
        for path in scale.values():
            _check_path(path, "the scale subresource", kind, schema)
        subresources["scale"] = scale
    return subresources


def _check_path(path: str, whose: str, kind: type[Resource], schema: JsonSchema) -> None:
    if not path.startswith("."):
        raise ModelError(kind.__name__, f"{whose} names the path {path!r}, and a path begins with a dot")
    if not leads_somewhere(path, schema):
        raise ModelError(f"{kind.__name__}{path}", f"there is no such field, but {whose} names it")
