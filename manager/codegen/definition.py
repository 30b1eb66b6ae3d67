"""Definitions as others have written them: what a file, or the API server, says of a kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from manager.api import GroupVersionKind
from manager.codegen.tree import yaml_documents

_CRD = "CustomResourceDefinition"


class DefinitionError(Exception):
    """It cannot be read: one line that says what is wrong with which field."""


@dataclass(frozen=True, slots=True)
class Served:
    """One version of a kind, and the schema of its objects."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    schema: Mapping[str, Any]
    version: Mapping[str, Any] | None = None
    """The entry of the definition; None where others define the kind, and the model is only read with."""
    names: Mapping[str, Any] = field(default_factory=dict)
    schemas: Mapping[str, Any] = field(default_factory=dict)
    """What `$ref` may point to."""
    unsaid: tuple[str, ...] = ()
    """What the definition says and a model does not."""


class Definition:
    """A CustomResourceDefinition."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        """Raises `DefinitionError` when it is not one that the server would take."""
        api_version = manifest.get("apiVersion")
        if api_version != "apiextensions.k8s.io/v1":
            raise DefinitionError(f"its apiVersion has to be apiextensions.k8s.io/v1, not {api_version}")
        self._spec = _at(manifest, "spec", dict)
        self._group = _at(self._spec, "group", str, "spec.")
        self._names = _at(self._spec, "names", dict, "spec.")
        self.kind = _at(self._names, "kind", str, "spec.names.")
        if not self.kind.isidentifier():
            raise DefinitionError(f"spec.names.kind: {self.kind!r} cannot be the name of a class")
        self._plural = _at(self._names, "plural", str, "spec.names.")
        self.name = f"{self._plural}.{self._group}"
        self._versions: dict[str, Mapping[str, Any]] = {}
        for each in _at(self._spec, "versions", list, "spec."):
            if not isinstance(each, dict):
                raise DefinitionError("spec.versions: each has to be a mapping")
            self._versions[_at(each, "name", str, "spec.versions[].")] = each
        if not self._versions:
            raise DefinitionError("spec.versions: there is none")

    def served(self, version: str | None) -> Served:
        """That version, or the one that objects are stored in. Raises `DefinitionError` for another."""
        stored = next((name for name, each in self._versions.items() if each.get("storage")), None)
        name = version or stored or next(iter(self._versions))
        if name not in self._versions:
            raise DefinitionError(f"{self.name} has no version {name}: it has {', '.join(self._versions)}")
        where = f"spec.versions[{name}].schema."
        entry = self._versions[name]
        schema = _at(_at(entry, "schema", dict, where[:-7]), "openAPIV3Schema", dict, where)
        return Served(
            GroupVersionKind(self._group, name, self.kind),
            self._plural,
            self._spec.get("scope") != "Cluster",
            schema,
            entry,
            self._names,
            unsaid=tuple(self._unsaid(name, entry)),
        )

    def _unsaid(self, name: str, entry: Mapping[str, Any]) -> Iterable[str]:
        others = [each for each in self._versions if each != name]
        if others:
            yield f"of the versions, this is {name}; there is also {', '.join(others)} (--version)"
        if (self._spec.get("conversion") or {}).get("strategy", "None") != "None":
            yield "spec.conversion is left out: methods of the operator convert (docs/webhooks.md)"
        if self._names.get("singular", self.kind.lower()) != self.kind.lower():
            yield f"spec.names.singular becomes {self.kind.lower()}"
        if self._names.get("listKind", f"{self.kind}List") != f"{self.kind}List":
            yield f"spec.names.listKind becomes {self.kind}List"
        if self._spec.get("preserveUnknownFields"):
            yield "spec.preserveUnknownFields is left out: fields that the schema does not name are dropped"
        if entry.get("selectableFields"):
            yield "selectableFields are left out: a model has no word for them"


def definitions_in(text: str) -> list[Definition]:
    """The definitions in a stream of YAML. Raises `DefinitionError` for anything else."""
    try:
        documents = yaml_documents(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        said = getattr(error, "problem", None) or str(error).partition("\n")[0] or "it is too deep"
        raise DefinitionError(f"it is not YAML{where}: {said}") from None
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
    """A kind in what the API server publishes of a group and version. Raises `DefinitionError`."""
    schemas = _at(_at(document, "components", dict), "schemas", dict, "components.")
    named = dict(zip(("group", "version", "kind"), gvk, strict=True))
    for schema in schemas.values():
        if named in schema.get("x-kubernetes-group-version-kind", ()):
            return Served(gvk, plural, namespaced, schema, schemas=schemas)
    raise DefinitionError(f"the API server publishes no schema of {gvk}")


def _at(holder: Mapping[str, Any], name: str, shape: type, where: str = "") -> Any:
    value = holder.get(name)
    if not isinstance(value, shape) or value == "":
        expected = {"dict": "a mapping", "list": "a list", "str": "some text"}[shape.__name__]
        said = "nothing" if value is None else repr(value)[:40]
        raise DefinitionError(f"{where}{name}: {expected} is expected, not {said}")
    return value
