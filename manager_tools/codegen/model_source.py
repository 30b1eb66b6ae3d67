"""Generation of a model's source from the schema of a kind, the reverse of `structural`."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic.alias_generators import to_camel

import manager.api
from manager.api import ApiModel, Column, Condition, ObjectMeta, Resource
from manager.api.condition import takes_conditions
from manager.api.model import is_checkable
from manager.api.schema import QUANTITY
from manager_kinds.factory import Part, has_type
from manager_tools.codegen.definition import DefinitionError, Served
from manager_tools.codegen.manifest import leads_somewhere
from manager_tools.codegen.model_schema import ModelError
from manager_tools.codegen.python_source import (
    call,
    class_source,
    docstring,
    imported,
    is_name,
    literal,
    mapping,
    quoted,
    tuple_of,
)
from manager_tools.codegen.round_trip import differences, together
from manager_tools.codegen.server_checks import go_pattern
from manager_tools.codegen.structural import FORMATS, IGNORED, ORDER, bounds, object_schema

Schema = Mapping[str, Any]

_IMPORTED = {
    "typing": frozenset({"Annotated", "Any", "Literal"}),
    "pydantic": frozenset({"ConfigDict", "Field"}),
    "manager.api": frozenset(manager.api.__all__),
}
_TAKEN = frozenset().union({"bool", "dict", "float", "int", "list", "str"}, *_IMPORTED.values())
"""Names that the generated source uses itself, and that no field or class may have."""

_SAYS_LITTLE = frozenset({"Item", "Metadata", "Spec", "Status", "Template"})

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_ALTERNATIVES = ("allOf", "anyOf", "not", "oneOf")
_INTEGERS = {"int32": "Int32", "int64": "Int64"}
_LENGTHS = {"minLength": "min_length", "maxLength": "max_length"}
_RANGE = {"minimum": "ge", "maximum": "le", "multipleOf": "multiple_of"}
_SCALARS = {"string": ("str", _LENGTHS), "boolean": ("bool", {}), "number": ("float", _RANGE)}
_SIZES = {
    "minItems": "min_length",
    "maxItems": "max_length",
    "minProperties": "min_length",
    "maxProperties": "max_length",
}
_RULE_WORDS = {
    "fieldPath": "field_path",
    "reason": "reason",
    "messageExpression": "message_expression",
    "optionalOldSelf": "optional_old_self",
}
_KNOWN = frozenset(ORDER) - {"anyOf"} | IGNORED | {"example", "externalDocs"}

_NO_CONDITIONS = "so ctx.condition() cannot be used, and a blocked object gets Events"

_REFERENCE = "$name"
"""The key under which an inlined schema keeps the name in its `$ref`."""

_KUBERNETES = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.apis.")
"""The prefixes of the OpenAPI names of built-in types."""

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OF_TOOLS = frozenset(
    {"controller-gen.kubebuilder.io/version", "kubectl.kubernetes.io/last-applied-configuration"}
)
"""Annotations of the tool that wrote or applied the CustomResourceDefinition."""

_OF_THE_SERVER = frozenset({"apiVersion", "kind", "metadata"})
_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A generated module's text, and a message for each part of the CRD that the model cannot express."""

    text: str
    unsaid: list[str]


def model_source(served: Served, origin: str) -> ModelSource:
    """Generate a kind's module, which names its `origin`. Raises `DefinitionError` for an invalid schema."""
    return _Writer(served).source(origin)


@dataclass(slots=True)
class _Type:
    """The source of a type, with the arguments of its `Annotated`."""

    base: str
    limits: dict[str, str] = field(default_factory=dict)
    """The arguments of `Field`."""
    marks: list[str] = field(default_factory=list)
    words: dict[str, Any] = field(default_factory=dict)
    """Schema keywords that only `schema_words` can express."""

    def annotation(self, *, optional: bool = False) -> str:
        parts = [f"{self.base} | None" if optional and self.base != "Any" else self.base]
        if self.limits:
            parts.append(call("Field", **self.limits))
        parts += self.marks
        if self.words:
            words = {word.replace("-", "_"): literal(value) for word, value in self.words.items()}
            parts.append(call("schema_words", **words))
        return f"Annotated[{', '.join(parts)}]" if len(parts) > 1 else parts[0]


class _Writer:
    def __init__(self, served: Served) -> None:
        self._served = served
        self._defines = served.version is not None
        self._root = self._untaken("")
        self._spec, self._status = f"{self._root}.spec", f"{self._root}.status"
        # Names of the classes of the spec and the status.
        self._parts = {self._spec: self._untaken("Spec"), self._status: self._untaken("Status")}
        self._names = {*_TAKEN, self._root, *self._parts.values()}
        self._classes: list[str] = []
        self._by_shape: dict[str, str] = {}
        self._about: dict[str, str] = {}
        self._can_be_empty: set[str] = set()
        self._inside: list[str] = []
        self._imported: dict[str, set[str]] = {}
        """Names of built-in types by module."""
        self._unsaid: dict[str, None] = dict.fromkeys(served.unsaid)

    def source(self, origin: str) -> ModelSource:
        root = self._root_class()
        self._check_conditions()
        body = "\n\n".join((*self._classes, root))
        words = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
        sources = {**_IMPORTED, **self._imported}
        imports = [imported(module, names & words) for module, names in sources.items() if names & words]
        gvk = self._served.gvk
        head = docstring(f"{gvk.kind} of {gvk.api_version}, as {origin} has it.", indent=0)
        text = "\n".join((head, "from __future__ import annotations\n", *imports))
        text = text.replace("\n\nfrom manager_kinds.", "\nfrom manager_kinds.")
        text = f"{text}\n\n{body}"
        unsaid = list(self._unsaid)
        if self._defines:
            try:
                unsaid += differences(
                    text, self._root, self._resolved(self._served.schema, self._root), unsaid
                )
            except ModelError as error:
                raise DefinitionError(f"its model would have no definition: {error}") from None
        return ModelSource(text, unsaid)

    def _say(self, path: str, what: str) -> None:
        self._unsaid[f"{path}: {what}"] = None

    def _check_conditions(self) -> None:
        """Report a problem if, by the rules of `ConditionList`, `ctx.condition()` cannot set conditions."""
        path, node = self._root, self._served.schema
        for name in ("status", "conditions"):
            path, found = f"{path}.{name}", (node.get("properties") or {}).get(name)
            if not isinstance(found, Mapping):
                self._say(path, f"there is none, {_NO_CONDITIONS}")
                return
            node = self._resolved(found, path)
        items = node.get("items")
        items = self._resolved(items, path) if isinstance(items, Mapping) else {}
        fields, required = items.get("properties") or {}, items.get("required") or ()
        is_open = bool(items.get(_PRESERVE)) and not fields
        if node.get("type") != "array" or not (is_open or takes_conditions(fields, required)):
            self._say(path, f"its items are no conditions, {_NO_CONDITIONS}")

    def _report_unknown(self, node: Schema, path: str) -> None:
        for word in sorted(node.keys() - _KNOWN):
            if word in _ALTERNATIVES:
                if not node.get(_INT_OR_STRING):
                    self._say(path, f"{word} is left out, so more values are accepted; cel() may say it")
            elif not word.startswith(("x-", "$")):
                self._say(path, f"{word} is left out")

    # Classes

    def _root_class(self) -> str:
        served, schema = self._served, self._served.schema
        names = {"group": quoted(served.gvk.group), "version": quoted(served.gvk.version)}
        if self._root != served.gvk.kind:
            names["kind"] = quoted(served.gvk.kind)
        names["plural"] = quoted(served.plural)
        if not served.namespaced:
            names["namespaced"] = "False"
        head = f"class {call(self._root, 'Resource', **names)}"
        fields = self._fields(schema, self._root, self._root)
        return self._decorator() + class_source(head, _description(schema), self._config(schema) + fields)

    def _config(self, schema: Schema) -> str:
        if not self._defines:
            return ""
        self._report_unknown(schema, self._root)
        metadata = (schema.get("properties") or {}).get("metadata") or {}
        if metadata.keys() - {"type", "description"}:
            self._say(f"{self._root}.metadata", "its limits are left out; cel() of the kind may say them")
        marks = list(self._rules(schema, self._root))
        if schema.get(_PRESERVE):
            marks.append(call("preserve_unknown"))
        if not marks:
            return ""
        extra = marks[0] if len(marks) == 1 else call("together", *marks)
        return f"    model_config = {call('ConfigDict', json_schema_extra=extra)}\n\n"

    def _decorator(self) -> str:
        served = self._served
        version = served.version
        if version is None:
            return ""
        columns = [each for each in version.get("additionalPrinterColumns") or () if self._has_column(each)]
        age = bool(columns) and {name: value for name, value in columns[-1].items() if value} == _AGE
        options: dict[str, str] = {}
        if printed := [_column(each) for each in (columns[:-1] if age else columns)]:
            options["columns"] = tuple_of(printed)
        subresources = version.get("subresources") or {}
        options |= self._scale(subresources.get("scale") or {})
        if ("status" in subresources) is not ("status" in (served.schema.get("properties") or {})):
            options["status"] = str("status" in subresources)
        options |= self._of_the_definition()
        if fields := [quoted(str(each["jsonPath"])) for each in version.get("selectableFields") or ()]:
            options["selectable_fields"] = tuple_of(fields)
        options |= {word: "False" for word in ("storage", "served") if not version.get(word, True)}
        if not age:
            options["age"] = "False"
        if version.get("deprecated"):
            gvk = self._served.gvk
            options["deprecated"] = quoted(
                version.get("deprecationWarning") or f"{gvk.api_version} {gvk.kind} is deprecated"
            )
        return f"@{call('crd', **options)}\n"

    def _scale(self, scale: Mapping[str, Any]) -> dict[str, str]:
        names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
        paths = [str(scale[path]) for path in names if scale.get(path)]
        if lost := [each for each in paths if not leads_somewhere(each, dict(self._served.schema))]:
            self._say("subresources.scale", f"is left out, as {', '.join(lost)} leads to no field")
            return {}
        return {"scale": call("Scale", *map(quoted, paths))} if paths else {}

    def _of_the_definition(self) -> dict[str, str]:
        names, kind = self._served.names, self._served.gvk.kind
        options: dict[str, str] = {}
        for option, word in (("short_names", "shortNames"), ("categories", "categories")):
            if listed := [quoted(each) for each in names.get(word) or ()]:
                options[option] = tuple_of(listed)
        usual = {"singular": kind.lower(), "listKind": f"{kind}List"}
        for option, word in (("singular", "singular"), ("list_kind", "listKind")):
            if (name := names.get(word) or usual[word]) != usual[word]:
                options[option] = quoted(name)
        for option in ("annotations", "labels"):
            told = self._served.metadata.get(option) or {}
            if kept := {name: value for name, value in told.items() if name not in _OF_TOOLS}:
                options[option] = literal(kept)
        return options

    def _has_column(self, column: Mapping[str, Any]) -> bool:
        there = leads_somewhere(str(column.get("jsonPath")), dict(self._served.schema))
        if not there:
            self._say(f"column {column.get('name')}", "is left out, as its path leads to no field")
        return there

    def _class(self, node: Schema, path: str, owner: str, name: str) -> str:
        required = sorted(node.get("required") or ())
        about = _description(node)
        # The class takes the first schema's description; a schema without a description must not get another
        # one's.
        what = [node.get("properties"), required, path == self._status, bool(about)]
        shape = json.dumps(what, sort_keys=True)
        if (known := self._by_shape.get(shape)) is not None:
            return known
        if path in self._parts:
            name = self._parts[path]
        else:
            name = self._free(owner, _pascal(str(node.get(_REFERENCE, name)).rpartition(".")[2]))
        self._names.add(name)
        fields = self._fields(node, path, name)
        self._about[name] = about
        self._classes.append(class_source(f"class {name}(ApiModel)", about, fields))
        self._by_shape[shape] = name
        return name

    def _untaken(self, part: str) -> str:
        """Return the kind's name with the name of a part, or a longer name if the source imports this one."""
        kind = self._served.gvk.kind
        return f"{kind}Kind{part}" if f"{kind}{part}" in _TAKEN else f"{kind}{part}"

    def _free(self, owner: str, name: str) -> str:
        """Return `name`, or a longer name if `name` is in use or too general."""
        if name in _SAYS_LITTLE or name in self._names:
            name = f"{owner}{name}"
        free, number = name, 1
        while free in self._names:
            number += 1
            free = f"{name}{number}"
        return free

    # Fields

    def _fields(self, node: Schema, path: str, owner: str) -> str:
        properties = node.get("properties") or {}
        base = Resource if path == self._root else ApiModel
        taken: set[str] = set()
        text, can_be_empty = "", True
        for wire, each in properties.items():
            if path == self._root and wire in _OF_THE_SERVER:
                continue
            name = field_name(str(wire), base, taken)
            taken.add(name)
            must = wire in (node.get("required") or ())
            lines, has_default = self._field(name, str(wire), each, must=must, path=path, owner=owner)
            text += lines
            can_be_empty = can_be_empty and has_default
        if can_be_empty:
            self._can_be_empty.add(owner)
        return text

    def _field(
        self, name: str, wire: str, node: Any, *, must: bool, path: str, owner: str
    ) -> tuple[str, bool]:
        where = f"{path}.{wire}"
        node = self._resolved(node, where)
        kind = self._type(node, where, owner, wire)
        if to_camel(name) != wire:
            kind.limits["alias"] = quoted(wire)
        optional = bool(node.get("nullable"))
        if optional and self._defines:
            kind.words["nullable"] = True
        default = self._default(node, where, owner, wire)
        if default is None and (optional or not must or path == self._status):
            if must and self._defines:
                kind.marks.append(call("required"))
            factory = self._factory(kind, where, in_status=path == self._status)
            if factory is None:
                default, optional = "None", True
            else:
                default = call("Field", default_factory=factory)
        text = f"    {name}: {kind.annotation(optional=optional)}"
        text += "\n" if default is None else f" = {default}\n"
        about = _description(node)
        if about and self._about.get(kind.base) != about:
            text += docstring(about)
        return text, default is not None

    def _factory(self, kind: _Type, where: str, *, in_status: bool) -> str | None:
        """Return an optional field's default factory if the field is never None in Python; otherwise None."""
        if where in {self._spec, self._status} and kind.base in self._can_be_empty:
            return kind.base
        return "list" if in_status and kind.base == "list[Condition]" else None

    def _default(self, node: Schema, path: str, owner: str, name: str) -> str | None:
        value = node.get("default")
        if value is None or not self._defines:
            return None
        made = self._value(node, value, path, owner, name)
        return call("Field", default=made) if made[0] in "[{" else made

    def _value(self, node: Schema, value: Any, path: str, owner: str, name: str) -> str:
        """Return the source of a default, with instances of models: pydantic does not convert defaults."""
        if isinstance(value, list) and isinstance(node.get("items"), Mapping):
            each = (self._value(node["items"], it, f"{path}[]", owner, _singular(name)) for it in value)
            return f"[{', '.join(each)}]"
        if isinstance(value, dict) and isinstance(node.get("additionalProperties"), Mapping):
            values = node["additionalProperties"]
            inner = f"{path}{{}}", owner, _singular(name)
            return mapping({key: self._value(values, it, *inner) for key, it in value.items()})
        if isinstance(value, dict) and node.get("properties"):
            model = self._type(node, path, owner, name).base
            return call(f"{model}.model_validate", literal(value)) if value else call(model)
        return literal(value)

    # Types

    def _resolved(self, node: Schema, path: str) -> Schema:
        parts: list[Any] = node.get("allOf") or []
        only = parts[0] if len(parts) == 1 and isinstance(parts[0], Mapping) else node
        if "$ref" not in only:
            return together(node)
        name = str(only["$ref"]).rpartition("/")[2]
        if name not in self._served.schemas:
            raise DefinitionError(f"{path}: there is no schema {only['$ref']!r}")
        beside = {word: value for word, value in node.items() if word not in {"$ref", "allOf", "default"}}
        return {**self._served.schemas[name], **beside, _REFERENCE: name}

    def _type(self, node: Any, path: str, owner: str, name: str) -> _Type:
        node = self._resolved(node, path)
        reference = node.get(_REFERENCE, "")
        if reference in self._inside:
            return _Type("dict[str, Any]")  # the schema refers to itself
        if builtin := self._builtin(str(reference)):
            return _Type(builtin)
        if reference:
            self._inside.append(reference)
        kind = self._bare(node, path, owner, name)
        if reference:
            self._inside.pop()
        if not self._defines:
            return _Type(kind.base)
        self._report_unknown(node, path)
        kind.marks += self._rules(node, path)
        if node.get(_EMBEDDED):
            kind.words[_EMBEDDED] = True
        return kind

    def _builtin(self, reference: str) -> str:
        if self._defines or not reference.startswith(_KUBERNETES):
            return ""
        group, version, name = reference.split(".")[-3:]
        module = f"manager_kinds.{group}_{version}"
        own = self._imported.setdefault(module, set())
        taken = name in self._names and name != f"{self._served.gvk.kind}Spec"
        if name not in own and (taken or not has_type(module, name)):
            return ""
        model = getattr(importlib.import_module(module), name)
        if not issubclass(model, Part):
            return ""  # a kind that another kind contains
        own.add(name)
        self._names.add(name)
        if not any(each.is_required() for each in model.model_fields.values()):
            self._can_be_empty.add(name)
        return name

    def _bare(self, node: Schema, path: str, owner: str, name: str) -> _Type:
        if node.get(_INT_OR_STRING) or node.get("format") == "int-or-string":
            is_quantity = node.get("pattern") == QUANTITY
            kind = _Type("Quantity" if is_quantity else "IntOrString")
            node = {word: value for word, value in node.items() if word != "pattern" or not is_quantity}
            return self._limited(kind, node, path, {**_LENGTHS, **_RANGE})
        match node.get("type"):
            case "integer":
                name = _INTEGERS.get(node.get("format", ""), "int")
                return self._limited(_Type(name), node, path, _RANGE)
            case "string" | "boolean" | "number" as scalar:
                name, limits = _SCALARS[scalar]
                return self._limited(_Type(name), node, path, limits)
            case "array":
                return self._array(node, path, owner, name)
            case "object":
                return self._object(node, path, owner, name)
            case None if node.get(_PRESERVE) or not self._defines:
                if not any(each.get("type") == "number" for each in node.get("oneOf") or ()):
                    return _Type("Any", marks=[call("preserve_unknown")])
                if not self._defines:
                    return _Type("Quantity")
                return _Type("str | int | float", marks=[call("preserve_unknown")])
        raise DefinitionError(f"{path}: type: {node.get('type')!r} is no type of a schema")

    def _limited(self, kind: _Type, node: Schema, path: str, limits: Mapping[str, str]) -> _Type:
        plain = kind.base not in {"IntOrString", "Quantity"}
        values = [each for each in node.get("enum") or () if each is not None]
        if values and self._defines:
            if plain and all(isinstance(each, str | int) for each in values):
                kind, plain = _Type(f"Literal[{', '.join(map(literal, values))}]"), False
            else:
                kind.words["enum"] = values
        for word, name in limits.items():
            beyond = bool(node.get(f"exclusive{word[0].upper()}{word[1:]}"))
            if word not in node or not self._is_bound(word, node, path):
                continue
            if plain:
                kind.limits[f"{name[0]}t" if beyond else name] = literal(node[word])
            else:
                kind.words[f"exclusive{word[0].upper()}{word[1:]}" if beyond else word] = node[word]
        self._written(kind, node, path, plain=plain)
        return kind

    def _is_bound(self, word: str, node: Schema, path: str) -> bool:
        """Return whether to keep a bound; report a bound that does not fit the type or the format."""
        if word not in _RANGE or not self._defines:
            return True
        try:
            bounds({each: node[each] for each in ("type", "format", word) if each in node}, path)
        except ModelError as error:
            self._say(path, f"{word} is left out: {error.reason}")
            return False
        return True

    def _written(self, kind: _Type, node: Schema, path: str, *, plain: bool) -> None:
        pattern, form = node.get("pattern"), node.get("format")
        if pattern is not None and self._is_pattern(str(pattern), path):
            if plain and is_checkable(str(pattern)):
                kind.limits["pattern"] = quoted(str(pattern))
            else:
                kind.marks.append(call("schema_pattern", quoted(str(pattern))))
        if form in FORMATS and kind.base != _INTEGERS.get(form):
            kind.marks.append(call("schema_format", quoted(form)))
        elif form is not None and form not in FORMATS and form != "int-or-string" and self._defines:
            self._say(path, f"format {form} is left out, so more values are accepted")

    def _is_pattern(self, pattern: str, path: str) -> bool:
        try:
            go_pattern(pattern, path)
        except ModelError as error:
            self._say(path, f"pattern is left out: {error.reason}")
            return False
        return True

    def _array(self, node: Schema, path: str, owner: str, name: str) -> _Type:
        if "items" not in node:
            raise DefinitionError(f"{path}: items is missing")
        items = self._element(node["items"], f"{path}[]", owner, _singular(name))
        kind = _Type(f"list[{items}]")
        match node.get("x-kubernetes-list-type"):
            case "map":
                kind.marks.append(
                    call("list_map", *map(quoted, node.get("x-kubernetes-list-map-keys") or ()))
                )
            case "set":
                kind.marks.append(call("list_set"))
            case "atomic":
                kind.marks.append(call("atomic_list"))
        kind.limits |= {_SIZES[word]: literal(node[word]) for word in _SIZES if word in node}
        return kind

    def _object(self, node: Schema, path: str, owner: str, name: str) -> _Type:
        values, preserve = node.get("additionalProperties"), node.get(_PRESERVE) or not self._defines
        sizes = {word: node[word] for word in _SIZES if word in node}
        limits: dict[str, str] = {_SIZES[word]: literal(value) for word, value in sizes.items()}
        if node.get(_REFERENCE) == _OBJECT_META or _wordless(node) == _template_metadata():
            return _Type("ObjectMeta")
        if _is_condition(node):
            kind = _Type("Condition")
        elif node.get("properties") or not (values or preserve):
            kind = _Type(self._class(node, path, owner, name), words=sizes)
        elif isinstance(values, Mapping) and values:
            value = self._element(values, f"{path}{{}}", owner, _singular(name))
            return self._atomic(_Type(f"dict[str, {value}]", limits), node)
        else:
            return self._atomic(_Type("dict[str, Any]", limits, [call("preserve_unknown")]), node)
        if preserve:
            kind.marks.append(call("preserve_unknown"))
        return self._atomic(kind, node)

    def _atomic(self, kind: _Type, node: Schema) -> _Type:
        if node.get("x-kubernetes-map-type") == "atomic":
            kind.marks.append(call("atomic_map"))
        return kind

    def _element(self, node: Any, path: str, owner: str, name: str) -> str:
        node = self._resolved(node, path)
        kind, about = self._type(node, path, owner, name), _description(node)
        if self._defines and about and self._about.get(kind.base) != about and kind.base != "Condition":
            kind.limits["description"] = quoted(about)
        if self._defines and node.get("default") is not None:
            kind.words["default"] = node["default"]  # the API server replaces null by the default
        return kind.annotation(optional=bool(node.get("nullable")))

    def _rules(self, node: Schema, path: str) -> Iterator[str]:
        for each in node.get("x-kubernetes-validations") or ():
            if not isinstance(each, Mapping) or "rule" not in each:
                raise DefinitionError(f"{path}: x-kubernetes-validations: each needs a rule")
            said = [quoted(str(each[word])) for word in ("rule", "message") if word in each]
            more = {name: literal(each[word]) for word, name in _RULE_WORDS.items() if word in each}
            yield call("cel", *said, **more)


def _column(column: Mapping[str, Any]) -> str:
    said = [quoted(str(column.get(word))) for word in ("name", "type", "jsonPath")]
    if column.get("description"):
        said.append(quoted(str(column["description"])))
    more = {word: literal(column[word]) for word in ("priority", "format") if column.get(word)}
    return call(Column.__name__, *said, **more)


def _is_condition(node: Schema) -> bool:
    theirs = (node.get("properties") or {}).keys()
    ours = _condition()
    return bool(theirs == ours["properties"].keys() and _wordless(node) == ours)


@cache
def _template_metadata() -> Any:
    return object_schema(ObjectMeta)


@cache
def _condition() -> Any:
    return _wordless(object_schema(Condition))


def _wordless(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {
            word: sorted(value or (), key=repr) if word in {"required", "enum"} else _wordless(value)
            for word, value in node.items()
            if word != "description" or isinstance(value, Mapping)
        }
    return node


def _description(node: Schema) -> str:
    return str(node.get("description") or "").strip()


def field_name(wire: str, base: type[ApiModel], taken: Container[str]) -> str:
    """Return a Python name that is not in `taken`, for the JSON field `wire` in a subclass of `base`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z]([a-rt-z]|s[a-z]))", "_", wire).lower()
    name = re.sub(r"[^a-z0-9]+", "_", words).strip("_")
    if not name or name[0].isdigit():
        name = f"field_{name}".rstrip("_")
    if not is_name(name) or name in _TAKEN or hasattr(base, name) or name.startswith("model_"):
        name = f"{name}_"
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _pascal(wire: str) -> str:
    name = "".join(word[0].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", wire) if word)
    return name if is_name(name) else f"Field{name}"


def _singular(name: str) -> str:
    for plural, singular in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh")):
        if name.endswith(plural):
            return name.removesuffix(plural) + singular
    return name[:-1] if name.endswith("s") and not name.endswith(("ss", "us", "is")) else name
