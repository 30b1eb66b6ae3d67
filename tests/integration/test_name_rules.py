"""The name rule that `create api --owns KIND` generates: it accepts only names that the child may have."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manager.api import ObjectMeta, Resource
from manager_tools.codegen import custom_resource_definitions
from manager_tools.scaffold import Names
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from manager_tools.scaffold.writing import CHILD_KINDS, model_text, operator_text
from manager_tools.testing import without_manager
from tests.support.control_plane import ControlPlane
from tests.support.crds import DEFINITIONS
from tests.support.eventually import eventually

pytestmark = pytest.mark.contract

LONGEST, LABEL, HASHED = 253, 63, 52
NAMES = ["a", "0a", "a-b", "a.b", "0.b", "a" * HASHED, "a" * (HASHED + 1)]
NAMES += ["a" * LABEL, "a" * (LABEL + 1), "a" * 60 + ".bcd", "a" * LONGEST]
# Whether the CRD accepts each name, by owned kind. CRDs for other owned kinds accept all of these names.
EVERY = dict.fromkeys(NAMES, True)
SHORT = EVERY | dict.fromkeys(NAMES[-3:], False)
NO_DOT = SHORT | {"a.b": False, "0.b": False}
SERVICE = NO_DOT | {"0a": False}
HASH = dict.fromkeys(NAMES[6:], False)
ACCEPTED = {
    "CronJob": EVERY | HASH,
    "Deployment": SHORT,
    "Ingress": SERVICE,
    "Job": SHORT,
    "Namespace": NO_DOT,
    "Service": SERVICE,
    "StatefulSet": NO_DOT | HASH,
}


@pytest.fixture(params=CHILD_KINDS)
def owned(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def model(owned: str, tmp_path: Path) -> Iterator[type[Resource]]:
    """Yield the model class that `create api --owns` writes."""
    group = f"names{owned.lower()}"
    names = Names(program="shop", domain="acme.test", group=group, kind="Order", plural="orders")
    file = tmp_path / "order.py"
    file.write_text(names.in_place(model_text([owned])))
    spec = importlib.util.spec_from_file_location(group, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[group] = module
    spec.loader.exec_module(module)
    yield module.Order
    del sys.modules[group]


def child_of(owned: str, name: str, namespace: str) -> dict[str, Any]:
    """Return the child object that the generated operator creates for an object of this name."""
    operators: dict[str, Any] = {"__name__": "operator_with_a_child"}
    exec(operator_text([owned]), operators)
    operator = without_manager(operators["GreetingOperator"])
    [method] = [
        name
        for name, each in vars(type(operator)).items()
        if getattr(each, "__annotations__", {}).get("return") == owned
    ]
    greeting = Greeting(metadata=ObjectMeta(name=name, namespace=namespace))
    wire: dict[str, Any] = getattr(operator, method)(greeting).to_wire()
    return wire


def test_generated_crd_accepts_only_object_names_that_are_valid_for_the_owned_kind(
    control_plane: ControlPlane, namespace: str, owned: str, model: type[Resource]
):
    [definition] = custom_resource_definitions([model])
    control_plane.api.apply([definition])
    path = f"/apis/{model.gvk.group}/v1/namespaces/{namespace}/orders"
    eventually(lambda: control_plane.api.get(path))
    accepted = {}
    for name in NAMES:
        order = {
            "apiVersion": model.gvk.api_version,
            "kind": "Order",
            "metadata": {"name": name},
        }
        refusal = refused(control_plane, path, order)
        accepted[name] = not refusal
        if refusal:
            assert "metadata.name: Invalid value: " in refusal
            assert re.search("must be at most (63|52)", refusal)
        else:
            child = child_of(owned, name, namespace)
            assert not refused(control_plane, control_plane.api.path_of(child).rpartition("/")[0], child)
    control_plane.api.delete(f"{DEFINITIONS}/{definition['metadata']['name']}")
    assert accepted == ACCEPTED.get(owned, EVERY)


def refused(plane: ControlPlane, path: str, body: dict[str, Any]) -> str:
    """Dry-run a creation; return the server's error message, or "" if it accepts the object."""
    return plane.api.refusal(f"{path}?dryRun=All", body)
