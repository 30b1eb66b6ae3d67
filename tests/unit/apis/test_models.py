"""Models of the kinds: accepted input, and output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from apis.example.v1.wordpress import Wordpress
from apis.myapp.v1alpha1.mysrv import MySrvSpec
from apis.tutorial.v1.foo import Foo, FooSpec
from manager_kinds.core_v1 import Secret
from tests.support import ROOT

STORED = {
    "apiVersion": "cache.example.com/v1",
    "kind": "Memcached",
    "metadata": {
        "name": "memcached-sample",
        "namespace": "default",
        "uid": "4a8d3c6e-1b5f-4a94-9df7-0f4eb21c8d2b",
        "resourceVersion": "12",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {"size": 0, "flavour": "newer"},
    "status": {
        "nodes": [],
        "replicas": 0,
        "readyReplicas": 0,
        "selector": "app=memcached",
        "observedGeneration": 3,
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "AsWanted",
                "message": "",
                "severity": "newer",
            }
        ],
    },
}


def test_memcached_writes_what_it_has_read():
    assert Memcached.decode(json.dumps(STORED).encode()).to_wire() == STORED


def test_memcached_status_writes_an_empty_node_list():
    assert Memcached(spec=MemcachedSpec(size=0)).to_wire()["status"]["nodes"] == []


def test_memcached_status_is_empty_when_no_controller_has_written_it():
    memcached = Memcached.decode(b'{"metadata": {"name": "a"}, "spec": {"size": 3}}')
    assert memcached.status.nodes == []
    assert memcached.status.ready_replicas is None
    assert memcached.status.conditions == []


@pytest.mark.parametrize("spec", [{}, {"size": -1}, {"size": 2**31}, {"size": None}, {"size": 1.5}])
def test_memcached_refuses_a_wrong_size(spec: dict[str, Any]):
    with pytest.raises(ValidationError):
        Memcached.decode(json.dumps({"spec": spec}).encode())


def test_foo_status_omits_happy_until_it_is_set():
    foo = Foo(spec=FooSpec(name="jack"))
    assert "happy" not in foo.to_wire()["status"]
    foo.status.happy = False
    assert foo.to_wire()["status"]["happy"] is False


@pytest.mark.parametrize("name", ["j", "j" * 253, "\N{GRINNING FACE}" * 253, "Jack O'Neill"])
def test_foo_spec_accepts_a_name_of_1_to_253_characters(name: str):
    assert FooSpec(name=name).name == name


@pytest.mark.parametrize("spec", [{}, {"name": ""}, {"name": "j" * 254}, {"name": None}, {"name": 5}])
def test_foo_spec_refuses_an_invalid_name(spec: dict[str, Any]):
    with pytest.raises(ValidationError, match="name"):
        FooSpec.model_validate(spec)


@pytest.mark.parametrize(("name", "port"), [("C", 1), ("C" * 63, 65535), ("\N{GRINNING FACE}" * 63, 80)])
def test_my_srv_spec_accepts_values_at_its_bounds(name: str, port: int):
    spec = MySrvSpec(name=name, port=port)
    assert (spec.name, spec.port) == (name, port)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"port": None}, "port"),
        ({"port": 80.5}, "port"),
        ({"name": ""}, "name"),
        ({"name": "C" * 64}, "name"),
        ({"name": 80}, "name"),
    ],
)
def test_my_srv_spec_refuses_values_beyond_its_bounds(changed: dict[str, Any], field: str):
    with pytest.raises(ValidationError, match=field):
        MySrvSpec.model_validate({"name": "CloudCMP", "port": 80, **changed})


OBJECT = {
    "apiVersion": "example.com/v1",
    "kind": "Wordpress",
    "metadata": {"name": "blog"},
    "spec": {"sqlrootpassword": "in-the-open", "storageSize": "1Gi"},
}


def test_wordpress_spec_has_the_defaults_of_its_definition():
    spec = Wordpress.decode(json.dumps(OBJECT).encode()).spec
    assert (spec.storage_size, spec.service_type, spec.reclaim_policy) == ("1Gi", "NodePort", "Retain")
    assert spec.mysql_image is spec.image is spec.storage_class_name is None


def told_as_it_stands(schema: Any, path: str = "") -> Iterator[str]:
    """Return where a message quotes a pattern, or a rule that has no message of its own."""
    if isinstance(schema, list):
        schema = dict(enumerate(schema))
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("pattern"), str) or ("rule" in schema and "message" not in schema):
        yield path
    for name, inner in schema.items():
        yield from told_as_it_stands(inner, f"{path}.{name}")


@pytest.mark.parametrize(
    "definition", sorted(ROOT.joinpath("config/crd/bases").iterdir()), ids=lambda path: path.stem
)
def test_spec_schemas_have_no_pattern_and_no_rule_without_a_message(definition: Path):
    versions = yaml.safe_load(definition.read_text())["spec"]["versions"]
    specs = [each["schema"]["openAPIV3Schema"]["properties"]["spec"] for each in versions]
    assert [*told_as_it_stands(specs)] == []


def test_site_repr_shows_no_password():
    site = Wordpress.decode(json.dumps(OBJECT).encode())
    assert "in-the-open" not in f"{site!r} {site}"


def test_secret_repr_and_errors_show_no_values():
    secret = Secret.decode(b'{"metadata": {"name": "s"}, "data": {"a": "c2VjcmV0"}}')
    assert secret.value("a") == b"secret"
    assert secret.value("b") is None
    assert "c2VjcmV0" not in f"{secret!r} {secret}"
    with pytest.raises(ValidationError) as error:
        Secret.decode(b'{"metadata": {"name": "s"}, "data": "c2VjcmV0"}')
    assert "c2VjcmV0" not in str(error.value)


@pytest.mark.parametrize("path", sorted((ROOT / "config/crd/bases").iterdir()), ids=lambda path: path.stem)
def test_definitions_have_a_reason_column_for_wide_output(path: Path):
    for version in yaml.safe_load(path.read_text())["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        columns = {each["name"]: each for each in version["additionalPrinterColumns"]}
        if "conditions" in status:
            assert columns["Reason"]["priority"] == 1
            assert columns["Reason"]["jsonPath"].endswith("].reason")


@pytest.mark.parametrize("path", sorted((ROOT / "config/crd/bases").iterdir()), ids=lambda path: path.stem)
def test_conditions_of_several_writers_are_merged_by_type(path: Path):
    for version in yaml.safe_load(path.read_text())["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        if "conditions" in status:
            assert status["conditions"]["x-kubernetes-list-type"] == "map"
            assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
