"""Models generated from CRDs, and the CRDs generated again from these models."""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import itertools
import json
import random
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from devcluster import DevCluster
from manager.api import Condition, GroupVersionKind, ObjectMeta, Resource
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager.util.yaml_text import yaml_documents
from manager_kinds.apps_v1 import StatefulSetSpec
from manager_tools.codegen import (
    DefinitionError,
    custom_resource_definitions,
    definitions_in,
    model_source,
    served_by_openapi,
)
from manager_tools.codegen.manifest import Manifest
from manager_tools.codegen.model_source import ModelSource
from manager_tools.codegen.python_source import laid_out
from manager_tools.codegen.structural import object_schema
from manager_tools.testing import LocalWire
from tests.support import ROOT
from tests.support.kinds import Tick
from tests.support.tools import output_of

VENDOR = Path(__file__).with_name("installation.yaml")
OURS = sorted((ROOT / "config/crd/bases").glob("*.yaml"))

_numbers = itertools.count()


def definition(path: Path) -> Manifest:
    [found] = [each for each in yaml_documents(path.read_text()) if each["kind"].endswith("Definition")]
    return found


def imported(text: str, kind: str, folder: Path) -> type[Resource]:
    """Write the source to a file, and import its model; the generator reads docstrings from the file."""
    name = f"written_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, kind)


def source_of(text: str, version: str | None = None) -> ModelSource:
    """Return the model source of the only CRD in the text."""
    [found] = definitions_in(text)
    return model_source(found.served(version), "a test")


def plain(schema: Any) -> Any:
    """Return the schema without insignificant details: line breaks, order, implied keywords."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    words = {
        word: plain(value)
        for word, value in schema.items()
        if (value or word not in {"properties", "required"})
        and (word, value) != ("x-kubernetes-map-type", "granular")
    }
    if isinstance(words.get("description"), str):
        words["description"] = " ".join(words["description"].split())
    properties = words.get("properties") or {}
    if isinstance(words.get("required"), list):
        # A field with a default is always present.
        words["required"] = sorted(
            each for each in words["required"] if "default" not in properties.get(each, ())
        )
    if words.get("x-kubernetes-int-or-string"):
        words.pop("anyOf", None)
    if isinstance(words.get("default"), dict):
        inner = {name: each["default"] for name, each in properties.items() if "default" in each}
        words["default"] = {**inner, **words["default"]}
    if isinstance(words.get("default"), list):
        items = words["items"].get("properties", {})
        inner = {name: each["default"] for name, each in items.items() if "default" in each}
        words["default"] = [
            {**inner, **each} if isinstance(each, dict) else each for each in words["default"]
        ]
    return {word: value for word, value in words.items() if word != "required" or value}


def schema_of(manifest: Manifest, version: str) -> Any:
    """Return the CRD's schema of a version, without `apiVersion`, `kind` and `metadata`."""
    [found] = [each for each in manifest["spec"]["versions"] if each["name"] == version]
    schema = copy.deepcopy(found["schema"]["openAPIV3Schema"])
    properties = schema.get("properties") or {}
    schema["properties"] = {
        name: value for name, value in properties.items() if name not in {"apiVersion", "kind", "metadata"}
    }
    if "status" in schema["properties"]:
        conditions = schema["properties"]["status"]["properties"]["conditions"]
        conditions["items"] = without_words(conditions["items"])  # Condition has its own descriptions
    return plain(schema)


def without_words(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {word: without_words(value) for word, value in schema.items() if word != "description"}


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_model_source_of_each_crd_of_this_repository_generates_an_equal_crd(path: Path, tmp_path: Path):
    ours = definition(path)
    versions = [each["name"] for each in ours["spec"]["versions"]]
    sources = [source_of(path.read_text(), version).text for version in versions]
    kinds = [imported(source, ours["spec"]["names"]["kind"], tmp_path) for source in sources]
    [again] = custom_resource_definitions(kinds)
    for version in versions:
        assert schema_of(again, version) == schema_of(ours, version)
    for each in (again, ours):
        each["spec"].pop("conversion", None)
        for version in each["spec"]["versions"]:
            del version["schema"]
    assert again == ours


def test_model_source_of_a_vendor_crd_reports_everything_that_it_omits(tmp_path: Path):
    theirs = definition(VENDOR)
    source = source_of(VENDOR.read_text())
    [again] = custom_resource_definitions([imported(source.text, "Installation", tmp_path)])
    assert source.unsaid == [
        "of the versions, this is v1; there is also v1alpha1 (--version)",
        "spec.conversion is left out: methods of the operator convert (docs/webhooks.md)",
        "Installation.spec.interval: format duration is left out, so more values are accepted",
        "Installation.spec.mode: oneOf is left out, so more values are accepted; cel() may say it",
        "column Gone: is left out, as its path leads to no field",
    ]
    expected = schema_of(theirs, "v1")
    spec = expected["properties"]["spec"]["properties"]
    del spec["interval"]["format"], spec["mode"]["oneOf"]
    # The generator merges the members of allOf.
    del spec["scope"]["allOf"], spec["title"]["allOf"]
    spec["scope"]["enum"] = ["All", "Some"]
    spec["title"].update(minLength=1, maxLength=63)
    assert schema_of(again, "v1") == expected
    assert again["spec"]["names"] == theirs["spec"]["names"]
    assert again["spec"]["scope"] == "Cluster"
    [version], before = again["spec"]["versions"], theirs["spec"]["versions"][1]
    columns = [each for each in before["additionalPrinterColumns"] if each["name"] != "Gone"]
    assert version["additionalPrinterColumns"] == columns
    assert version["subresources"] == before["subresources"]


def test_model_source_is_generated_for_the_requested_api_version(tmp_path: Path):
    sources = [source_of(VENDOR.read_text(), version).text for version in ("v1alpha1", "v1")]
    [again] = custom_resource_definitions([imported(each, "Installation", tmp_path) for each in sources])
    first = again["spec"]["versions"][0]
    assert first["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] is True
    assert (first["served"], first["storage"], first["deprecated"]) == (True, False, True)
    assert "subresources" not in first


LEAST = {"replicas": 1, "type": "a", "members": [{"name": "x"}]}
MUCH = {
    "replicas": 2,
    "type": "b",
    "class": "c",
    "clusterIP": "1.2.3.4",
    "created-by/tool": "make",
    "config": {"deep": {"er": [1, None]}},
    "cpu": "100m",
    "anything": [1, {"a": "b"}],
    "grid": [[1, 2], []],
    "json": {"a": 1, "b": {"c": []}},
    "limits": {"a": 1, "b": "2"},
    "list": ["a"],
    "maxUnavailable": 3,
    "members": [{"name": "x", "spec": {"a": "b", "c": 1}}, {"name": "y", "port": 1}],
    "names": {"a": ["b", None]},
    "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"a": 1}},
    "options": {"ratio": 1},
}


@pytest.mark.parametrize("spec", [LEAST, MUCH], ids=["required fields", "many fields"])
def test_model_of_a_vendor_crd_reads_and_writes_objects_unchanged(spec: Any, tmp_path: Path):
    model = imported(source_of(VENDOR.read_text()).text, "Installation", tmp_path)
    read = model.model_validate({"spec": spec})
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True)["spec"] == spec


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web", "resources": {"limits": {"cpu": "1"}}}]},
        },
    },
}


async def published_and_created() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a server's OpenAPI document of apps/v1, and a Deployment as the server stores it."""
    async with DevCluster(port=None) as cluster:
        transport = Transport(LocalWire(cluster), metrics=Metrics(), rng=random.Random(), user_agent="test")
        published = orjson.loads(await transport.request("GET", "/openapi/v3/apis/apps/v1"))
        return published, await cluster.client.create("deployments.apps", "default", DEPLOYMENT)


def builtin(published: dict[str, Any], kind: str) -> ModelSource:
    """Return the model source of a kind of apps/v1, generated from the OpenAPI document."""
    gvk = GroupVersionKind("apps", "v1", kind)
    return model_source(served_by_openapi(published, gvk, f"{kind.lower()}s", namespaced=True), "a test")


def test_model_of_a_builtin_kind_reads_server_objects_and_defines_no_crd(tmp_path: Path):
    published, created = asyncio.run(published_and_created())
    source = builtin(published, "Deployment")
    assert "Annotated[str, Field(max" not in source.text
    assert "@crd" not in source.text
    model = imported(source.text, "Deployment", tmp_path)
    read = model.decode(orjson.dumps(created))
    [container] = read.spec.template.spec.containers
    assert container.resources.limits == {"cpu": "1"}
    assert read.spec.strategy.rolling_update.max_surge == "25%"
    assert read.to_wire() == {**created, "metadata": read.metadata.to_wire()}
    assert model(metadata=ObjectMeta(name="new")).status.ready_replicas is None
    # The source imports types that the library has.
    source = builtin(published, "StatefulSet")
    assert "from manager_kinds.apps_v1 import StatefulSetCondition, StatefulSetSpec" in source.text
    assert "class StatefulSetSpec" not in source.text
    model = imported(source.text, "StatefulSet", tmp_path)
    assert object_schema(model)["properties"]["spec"] == object_schema(StatefulSetSpec)


def test_model_source_uses_library_types_and_omits_crd_annotations_of_other_tools(tmp_path: Path):
    theirs = json.loads(json.dumps(custom_resource_definitions([Tick])[0]))
    read = copy.deepcopy(theirs)
    for tool in ("controller-gen.kubebuilder.io/version", "kubectl.kubernetes.io/last-applied-configuration"):
        read["metadata"]["annotations"][tool] = "v0"
    source = source_of(json.dumps(read))
    assert [line for line in source.unsaid if "conditions" not in line and ".status: " not in line] == []
    assert "size: Quantity | None = None" in source.text
    assert "metadata: ObjectMeta | None = None" in source.text
    [again] = custom_resource_definitions([imported(source.text, "Tick", tmp_path)])
    assert schema_of(again, "v1") == schema_of(theirs, "v1")
    assert (again["metadata"], again["spec"]["names"]) == (theirs["metadata"], theirs["spec"]["names"])
    selectable = [each["spec"]["versions"][0]["selectableFields"] for each in (again, theirs)]
    assert selectable[0] == selectable[1]


def test_laid_out_model_source_passes_ruff_with_the_settings_of_a_new_project(tmp_path: Path):
    published, _ = asyncio.run(published_and_created())
    odd = {"type": "string", "description": f"x \u2013 {'y' * 200}", "default": "\u2013", "enum": ["\u2013"]}
    wide = {"a" * 120: {"type": "array", "items": {"type": "string", "maxLength": 63}}}
    sources = {
        "deployment": builtin(published, "Deployment"),
        "odd": model_of(odd),
        "wide": model_of({"type": "object", "properties": wide}),
    }
    for path in (VENDOR, *OURS):
        sources[path.stem.replace(".", "_")] = source_of(path.read_text())
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(laid_out(source.text))
    shutil.copy(ROOT / "manager_tools/scaffold/project/pyproject.in.toml", tmp_path / "pyproject.toml")
    for check in (("format", "--check"), ("check",)):
        output_of(sys.executable, "-m", "ruff", *check, ".", cwd=tmp_path)


def model_of(value: Any, **version: Any) -> ModelSource:
    """Return the model source of a CRD whose spec has one field `value` with this schema."""
    spec = {"type": "object", "properties": {"value": value}}
    return source_of(crd({"type": "object", "properties": {"spec": spec}}, version=version))


STRING = {"type": "string"}
NO_STATUS = "Kind.status: there is none, so ctx.condition() cannot be used, and a blocked object gets Events"


def test_model_source_keeps_the_status_subresource_when_there_is_no_status_field(tmp_path: Path):
    source = model_of({"type": "string"}, subresources={"status": {}})
    [again] = custom_resource_definitions([imported(source.text, "Kind", tmp_path)])
    assert again["spec"]["versions"][0]["subresources"] == {"status": {}}
    assert "status" not in again["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert source.unsaid == [NO_STATUS]


@pytest.mark.parametrize(
    ("value", "lost"),
    [
        ({"type": "string", "x-kubernetes-int-or-string": True}, "type 'string' is lost"),
        ({"type": "string", "minimum": 3}, "minimum 3 is lost"),
        ({"type": "string", "default": "a", "maxItems": 3}, "maxItems 3 is lost"),
        ({"type": "integer", "format": "int32", "maximum": 2**32 - 1}, "maximum is left out: its maximum 42"),
        ({"type": "integer", "minimum": 0.5}, "minimum is left out: its minimum 0.5 is no whole number"),
        ({"x-kubernetes-int-or-string": True, "maximum": 2**64}, "maximum is left out: its maximum 184467"),
        ({"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1}, ""),
        ({"type": "string", "enum": ["b", "a"], "default": "a"}, ""),
        ({"type": "object", "x-kubernetes-map-type": "granular", "additionalProperties": STRING}, ""),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, ""),
        ({"type": "string", "nullable": False, "title": "T", "example": "x"}, ""),
    ],
)
def test_model_source_reports_a_schema_keyword_only_when_a_model_cannot_express_it(value: Any, lost: str):
    told = [line for line in model_of(value).unsaid if line != NO_STATUS]
    assert len(told) == bool(lost)
    assert all(line.startswith(f"Kind.spec.value: {lost}") for line in told)


def test_model_source_keeps_the_age_column_with_its_description(tmp_path: Path):
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    for column in (age, {**age, "description": "Since when it is there"}, {**age, "priority": 1}):
        source = model_of({"type": "string"}, additionalPrinterColumns=[column])
        [again] = custom_resource_definitions([imported(source.text, "Kind", tmp_path)])
        assert again["spec"]["versions"][0]["additionalPrinterColumns"] == [column]


def test_model_source_omits_and_reports_scale_when_its_paths_name_no_field():
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    source = model_of({"type": "string"}, subresources={"scale": paths})
    assert "subresources.scale: is left out, as .spec.size, .status.size leads to no field" in source.unsaid


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ({"type": {"type": "string"}, "status": {"type": "string"}}, []),
        ({"name": {"type": "string"}}, ["Kind.status.conditions: its items are no conditions, "]),
    ],
)
def test_model_source_reports_a_conditions_field_whose_items_are_no_conditions(items: Any, told: list[str]):
    conditions = {"type": "array", "items": {"type": "object", "properties": items}}
    status = {"type": "object", "properties": {"conditions": conditions}}
    schema = {"type": "object", "properties": {"status": status}}
    source = source_of(crd(schema, version={"subresources": {"status": {}}}))
    assert [line.partition("so ctx")[0] for line in source.unsaid] == told


def test_model_source_refuses_a_crd_whose_default_violates_its_own_schema():
    with pytest.raises(DefinitionError, match=r"no definition: Kind.spec.value: .*refuses its default"):
        model_of({"type": "string", "maxLength": 1, "default": "long"})


NAMES = {"kind": "Kind", "plural": "kinds"}
SPEC = {"group": "a.b", "names": NAMES}


def crd(schema: Any, *, version: Mapping[str, Any] | None = None, metadata: Any = None, **spec: Any) -> str:
    whole = {"openAPIV3Schema": schema}
    version = {"name": "v1", "served": True, "storage": True, "schema": whole, **(version or {})}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return yaml.safe_dump({**head, "metadata": metadata, "spec": {**SPEC, "versions": [version], **spec}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no CustomResourceDefinition"),
        ("a: {", "not valid YAML in line 2, column 1: did not find expected node content"),
        ("kind: Pod\n---\nkind: Secret", "it has no CustomResourceDefinition, but Pod, Secret"),
        (
            "kind: CustomResourceDefinition\napiVersion: a/v1beta1",
            "its apiVersion has to be apiextensions.k8s.io/v1, not a/v1beta1",
        ),
        (crd({}, names={}), "spec.names: Object missing required field `plural`"),
        (crd({}, names={**NAMES, "kind": "a b"}), "spec.names.kind: 'a b' cannot be the name of a class"),
        (crd({}, versions=[1]), "spec.versions[0]: Expected `object`, got `int`"),
        (crd({}, metadata={"labels": {"a": 1}}), "metadata.labels[...]: Expected `str`, got `int`"),
        (crd({"properties": {"spec": 1}}), "Kind.spec: Expected `object`, got `int`"),
        (
            crd({}, group='a"\nimport os'),
            "spec.group: Expected `str` matching regex '^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$'",
        ),
        (crd({"properties": {"a": {"type": "text"}}}), "Kind.a: type: 'text' is no type of a schema"),
        (crd({"properties": {"a": {"type": "array"}}}), "Kind.a: items is missing"),
        (crd({"properties": {"a": {"$ref": "#/b"}}}), "Kind.a: there is no schema '#/b'"),
        (
            crd({"x-kubernetes-validations": [{"message": "x"}]}),
            "Kind: x-kubernetes-validations: each needs a rule",
        ),
    ],
)
def test_model_source_error_for_an_invalid_crd_names_the_place_in_one_line(text: str, said: str):
    with pytest.raises(DefinitionError, match=f"^{re.escape(said)}$"):
        [model_source(each.served(None), "a test") for each in definitions_in(text)]


@pytest.mark.parametrize(
    "properties",
    [
        {"None": {"type": "object", "properties": {"a": {"type": "string"}}}},
        {"spec": {"type": "object", "properties": None}},
        {"conditions": {"type": "array", "items": {**object_schema(Condition), "required": None}}},
        {"conditions": {"type": "array", "items": {**object_schema(Condition), "enum": [None, 1, "a", {}]}}},
    ],
    ids=["an invalid Python name", "no properties", "nothing required", "values of any kind"],
)
def test_model_source_is_importable_python_when_the_properties_are_unusual(properties: Any, tmp_path: Path):
    columns = [{"name": "A", "type": "string", "jsonPath": ".spec.a"}]
    schema = {"type": "object", "properties": properties}
    source = source_of(crd(schema, version={"additionalPrinterColumns": columns}))
    assert imported(source.text, "Kind", tmp_path).gvk.kind == "Kind"


@pytest.mark.parametrize("kind", ["Condition", "Steps"])
def test_model_source_class_has_another_name_than_an_imported_one(kind: str, tmp_path: Path):
    properties = {"conditions": {"type": "array", "items": object_schema(Condition)}}
    schema = {"type": "object", "properties": {"status": {"type": "object", "properties": properties}}}
    text = source_of(crd(schema, names={"kind": kind, "plural": "things"})).text
    assert f"class {kind}KindStatus(ApiModel)" in text
    assert f"{kind}Status," not in text
    imported(text, f"{kind}Kind" if kind == "Condition" else kind, tmp_path)


def test_model_source_renames_reserved_invalid_and_duplicate_fields_but_keeps_json_names(tmp_path: Path):
    names = ["list", "str", "cel", "json", "from", "None", "1st", "_"]
    names += ["key", "podIPs", "pod_ips", "modelName", "$x"]
    properties = {name: {"type": "array", "items": {"type": "string"}} for name in names}
    properties |= {"field": {"type": "object", "properties": {"a": {"type": "string"}}}}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}, "key": {"type": "string"}},
    }
    source = source_of(crd(schema, names={"kind": "Condition", "plural": "conditions"}))
    model = imported(source.text, "ConditionKind", tmp_path)
    wire = {name: ["x"] for name in names} | {"field": {"a": "b"}}
    read = model.model_validate({"spec": wire, "key": "k"})
    assert read.to_wire(only={"spec", "key_"}) == {"spec": wire, "key": "k"}
    assert read.spec.__pydantic_extra__ == {}
    assert model.gvk.kind == "Condition"
    assert schema_of(custom_resource_definitions([model])[0], "v1") == plain(schema)
