"""The recipes of docs/recipes.md in one program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.api_objects import condition, manifest, object_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import DEFINITIONS, untyped_definition
from tests.support.eventually import eventually
from tests.support.fork_server import run
from tests.support.markdown import code_of

pytestmark = pytest.mark.contract

API = "recipes.example.com/v1"
NEEDED = "importing,storing,scaling,exposing,configured,spacious,sharing"


class Recipes:
    """The Apps in a namespace, and the objects that the recipes create for them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace

    def get(self, api: str, plural: str, name: str) -> Any:
        return self.plane.api.find(object_path(api, self.namespace, plural, name))

    def app(self, name: str = "") -> str:
        """Return the API path of an App, or of all Apps if `name` is empty."""
        return object_path(API, self.namespace, "apps", name)

    def create(self, recipe: str, name: str = "", **spec: Any) -> None:
        metadata = {"name": name or recipe, "labels": {"recipe": recipe}}
        self.plane.api.create(self.app(), {**manifest(API, "App", "", **spec), "metadata": metadata})

    def change(self, name: str, **spec: Any) -> None:
        self.plane.api.patch(self.app(name), {"spec": spec})

    def delete(self, name: str) -> None:
        """Delete an App, and wait until it no longer exists."""
        self.plane.api.delete(self.app(name))
        eventually(lambda: self.plane.api.find(self.app(name)) is None)

    def until_ready(self, name: str, status: str, reason: str) -> None:
        def ready() -> bool:
            found = condition(self.plane.api.get(self.app(name)), "Ready")
            return (found["status"], found["reason"]) == (status, reason)

        eventually(ready)


def test_operators_of_the_recipes_page_give_the_results_that_the_page_describes(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, run_manager: RunManager
):
    control_plane.require(Feature.WORKLOADS, Feature.READY_PODS)
    file = tmp_path / "recipes.py"
    file.write_text(code_of(Path("docs/recipes.md"), "recipes.py"))
    printed = run(sys.executable, str(file), "crds", environ={"HOME": str(tmp_path)}, timeout=60)
    control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=printed.stdout)
    api = control_plane.api
    routes = untyped_definition("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
    api.create(DEFINITIONS, routes)  # for the recipe that uses the Gateway API
    recipes = Recipes(control_plane, namespace)
    try:
        eventually(lambda: recipes.get("gateway.networking.k8s.io/v1", "httproutes", "") is not None)
        flags = (f"--namespaces={namespace}", f"--controllers={NEEDED}", "--webhook-bind-address=0")
        run_manager(control_plane.kubeconfig, *flags, program=(sys.executable, file)).wait_ready()
        follow(recipes)
    finally:
        for name in ("httproutes.gateway.networking.k8s.io", "apps.recipes.example.com"):
            api.delete(f"{DEFINITIONS}/{name}")
            eventually(lambda name=name: api.find(f"{DEFINITIONS}/{name}") is None)


def follow(recipes: Recipes) -> None:
    """Use each recipe as its users do, and check the results."""
    for recipe in ("volumes", "scale", "ingress", "config", "namespace"):
        recipes.create(recipe)
    recipes.create("job", text="one")
    recipes.create("shared", "one")
    recipes.create("shared", "two")

    recipes.until_ready("volumes", "True", "Applied")
    recipes.change("volumes", storage="2Gi")
    recipes.until_ready("volumes", "False", "ClaimsFixed")
    before = recipes.get("apps/v1", "statefulsets", "volumes")["metadata"]["uid"]
    recipes.change("volumes", recreate=True)
    recipes.until_ready("volumes", "True", "Applied")
    there = recipes.get("apps/v1", "statefulsets", "volumes")
    assert there["metadata"]["uid"] != before
    [claim] = there["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"

    recipes.until_ready("scale", "True", "Scaled")
    recipes.plane.kubectl(f"--namespace={recipes.namespace}", "scale", "deployment/scale", "--replicas=3")
    recipes.change("scale", text="other")
    eventually(lambda: recipes.get("apps/v1", "deployments", "scale")["status"].get("readyReplicas") == 3)
    assert recipes.get("autoscaling/v2", "horizontalpodautoscalers", "scale") is not None
    assert recipes.get("policy/v1", "poddisruptionbudgets", "scale") is not None

    recipes.until_ready("ingress", "True", "Exposed")
    assert recipes.get("networking.k8s.io/v1", "ingresses", "ingress") is not None
    route = recipes.get("gateway.networking.k8s.io/v1", "httproutes", "ingress")
    assert route["spec"]["hostnames"] == ["ingress.example.com"]

    recipes.until_ready("config", "True", "Configured")
    before = recipes.get("apps/v1", "deployments", "config")["metadata"]["generation"]
    recipes.change("config", text="louder")
    eventually(lambda: recipes.get("apps/v1", "deployments", "config")["metadata"]["generation"] > before)
    assert recipes.get("v1", "configmaps", "config")["data"] == {"settings": "louder"}

    def jobs() -> list[str]:
        return [each["metadata"]["name"] for each in recipes.get("batch/v1", "jobs", "")["items"]]

    recipes.until_ready("job", "True", "Imported")
    [first] = jobs()
    recipes.change("job", text="two")
    eventually(lambda: first not in jobs())
    assert recipes.get("batch/v1", "cronjobs", "job-nightly") is not None

    recipes.until_ready("namespace", "True", "NamespaceMade")
    space = f"/api/v1/namespaces/{recipes.namespace}-namespace"
    assert recipes.plane.api.find(space) is not None
    recipes.delete("namespace")
    assert recipes.plane.api.find(space) is None

    recipes.until_ready("one", "True", "Shared")
    recipes.until_ready("two", "True", "Shared")
    recipes.delete("one")
    assert recipes.get("v1", "configmaps", "shared") is not None
    recipes.delete("two")
    eventually(lambda: recipes.get("v1", "configmaps", "shared") is None)
