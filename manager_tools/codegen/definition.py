"""CustomResourceDefinitions from other tools, read from a file or from the API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import msgspec

from manager.api import GroupVersionKind
from manager.util.yaml_text import NotYaml, yaml_documents
from manager_tools.codegen.python_source import is_name

S = TypeVar("S")

_CRD = "CustomResourceDefinition"


class DefinitionError(Exception):
    """An error: no model can be made of the definition or schema; the one-line message has the reason."""


@dataclass(frozen=True, slots=True)
class Served:
    """A version of a kind, with the schema of its objects."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    schema: Mapping[str, Any]
    version: Mapping[str, Any] | None = None
    """The version's entry in the CustomResourceDefinition; None for a kind from the OpenAPI document."""
    names: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Labels and annotations of the CustomResourceDefinition."""
    schemas: Mapping[str, Any] = field(default_factory=dict)
    """The schemas to which `$ref` may refer."""
    unsaid: tuple[str, ...] = ()
    """Parts of the CustomResourceDefinition that a model cannot express."""


class Schema(msgspec.Struct, rename="camel"):
    """The checked part of an OpenAPI schema; decoding into it finds malformed schemas."""

    type: str | None = None
    format: str | None = None
    description: str | None = None
    pattern: str | None = None
    properties: dict[str, Schema] | None = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    items: Schema | None = None
    additional_properties: bool | Schema | None = None
    all_of: list[Schema] | None = None
    any_of: list[Schema] | None = None
    one_of: list[Schema] | None = None
    negated: Schema | None = msgspec.field(default=None, name="not")
    minimum: float | None = None
    maximum: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    ref: str | None = msgspec.field(default=None, name="$ref")
    list_type: str | None = msgspec.field(default=None, name="x-kubernetes-list-type")
    map_keys: list[str] | None = msgspec.field(default=None, name="x-kubernetes-list-map-keys")
    rules: list[dict[str, Any]] | None = msgspec.field(default=None, name="x-kubernetes-validations")


class _Column(msgspec.Struct, rename="camel"):
    name: str
    type: str
    json_path: str
    format: str | None = None
    description: str | None = None
    priority: int | None = None


class _Subresources(msgspec.Struct):
    status: dict[str, Any] | None = None
    scale: dict[str, str] | None = None


class _Validation(msgspec.Struct):
    schema: dict[str, Any] = msgspec.field(name="openAPIV3Schema")


class _Version(msgspec.Struct, rename="camel"):
    name: Annotated[str, msgspec.Meta(pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$")]
    schema: _Validation
    storage: bool = False
    selectable_fields: list[_SelectableField] | None = None
    subresources: _Subresources | None = None
    additional_printer_columns: list[_Column] | None = None
    deprecation_warning: str | None = None


class _Names(msgspec.Struct, rename="camel"):
    plural: Annotated[str, msgspec.Meta(pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$")]
    kind: str
    singular: str | None = None
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _SelectableField(msgspec.Struct, rename="camel"):
    json_path: str


class _Conversion(msgspec.Struct):
    strategy: str | None = None


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    group: Annotated[str, msgspec.Meta(pattern="^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
    names: _Names
    versions: Annotated[list[_Version], msgspec.Meta(min_length=1)]
    scope: str | None = None
    conversion: _Conversion | None = None
    preserve_unknown_fields: bool = False


class _Components(msgspec.Struct):
    schemas: dict[str, dict[str, Any]]


class _Published(msgspec.Struct):
    components: _Components


def _shaped(value: Any, kind: type[S], where: str) -> S:
    """Decode `value` as a `kind`; raise `DefinitionError` with the field's name if it has another type."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        # The error does not say which of the properties is wrong.
        properties = value.get("properties") if kind is Schema and isinstance(value, dict) else None
        for name, each in properties.items() if isinstance(properties, dict) else ():
            _shaped(each, Schema, f"{where}.{name}")
        what, _, at = str(error).partition(" - at `$")
        place = f"{where}{at.rstrip('`')}".lstrip(".")
        raise DefinitionError(f"{place}: {what}") from None


def _class_name(kind: str) -> str:
    if not is_name(kind) or kind.startswith("_"):
        raise DefinitionError(f"spec.names.kind: {kind!r} cannot be the name of a class")
    return kind


class Definition:
    """A parsed CustomResourceDefinition."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        api_version = manifest.get("apiVersion")
        if api_version != "apiextensions.k8s.io/v1":
            raise DefinitionError(f"its apiVersion has to be apiextensions.k8s.io/v1, not {api_version}")
        self._spec = _shaped(manifest.get("spec"), _Spec, "spec")
        self.kind = _class_name(self._spec.names.kind)
        self.name = f"{self._spec.names.plural}.{self._spec.group}"
        self._names: Mapping[str, Any] = manifest["spec"]["names"]
        self._metadata: Mapping[str, Any] = msgspec.to_builtins(
            _shaped(manifest.get("metadata") or {}, _Metadata, "metadata")
        )
        self._versions = {
            each.name: (each, entry)
            for each, entry in zip(self._spec.versions, manifest["spec"]["versions"], strict=True)
        }

    def served(self, version: str | None) -> Served:
        """Return a version (None: storage version). Raises `DefinitionError` if it is unknown or invalid."""
        stored = next((name for name, (each, _) in self._versions.items() if each.storage), None)
        name = version or stored or next(iter(self._versions))
        if name not in self._versions:
            raise DefinitionError(f"{self.name} has no version {name}: it has {', '.join(self._versions)}")
        told, entry = self._versions[name]
        _shaped(told.schema.schema, Schema, self.kind)
        return Served(
            GroupVersionKind(self._spec.group, name, self.kind),
            self._spec.names.plural,
            self._spec.scope != "Cluster",
            told.schema.schema,
            entry,
            self._names,
            self._metadata,
            unsaid=tuple(self._unsaid(told)),
        )

    def _unsaid(self, version: _Version) -> Iterable[str]:
        spec = self._spec
        if others := [each for each in self._versions if each != version.name]:
            yield f"of the versions, this is {version.name}; there is also {', '.join(others)} (--version)"
        if spec.conversion is not None and spec.conversion.strategy not in {None, "None"}:
            yield "spec.conversion is left out: methods of the operator convert (docs/webhooks.md)"
        if spec.preserve_unknown_fields:
            yield "spec.preserveUnknownFields is left out: fields that the schema does not name are dropped"


def definitions_in(text: str) -> list[Definition]:
    """Return the CRDs in a YAML stream. Raises `DefinitionError` if it has none, or an invalid one."""
    try:
        documents = yaml_documents(text)
    except NotYaml as error:
        raise DefinitionError(str(error)) from None
    manifests: list[Any] = []
    each: Any
    for each in documents:
        items = each.get("items") if isinstance(each, Mapping) else None
        manifests += items if isinstance(items, list) else [each]
    found = [each for each in manifests if isinstance(each, dict) and each.get("kind") == _CRD]
    if not found:
        kinds = sorted({str(each.get("kind")) for each in manifests if isinstance(each, dict)})
        raise DefinitionError(f"it has no {_CRD}" + (f", but {', '.join(kinds)}" if kinds else ""))
    return [Definition(each) for each in found]


def served_by_openapi(
    document: Mapping[str, Any], gvk: GroupVersionKind, plural: str, *, namespaced: bool
) -> Served:
    """Return a kind from the API server's OpenAPI document of a group and version.

    Raises `DefinitionError` if the document does not describe the kind.
    """
    schemas = _shaped(document, _Published, "").components.schemas
    _class_name(gvk.kind)
    for name, schema in schemas.items():
        _shaped(schema, Schema, name)
    named = dict(zip(("group", "version", "kind"), gvk, strict=True))
    for schema in schemas.values():
        if named in (schema.get("x-kubernetes-group-version-kind") or ()):
            return Served(gvk, plural, namespaced, schema, schemas=schemas)
    raise DefinitionError(f"the API server publishes no schema of {gvk}")
