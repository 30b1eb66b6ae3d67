"""Command `chart` in a project that `init` created: the chart renders the objects of the overlays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manager.cli import main
from manager.util.yaml_text import yaml_documents
from tests.support.tools import output_of, tool
from tests.unit.cli.conftest import Command

WEBHOOKS = ("create", "webhook", "--kind=Greeting", "--validation", "--conversion=v2")
PLACE = ("--namespace=shop-system", "--kube-version=1.36.0")
Objects = dict[tuple[str, str], dict[str, Any]]


def keyed(text: str) -> Objects:
    """Return the objects by kind and name, without the Namespace and fields that only a chart sets."""
    found = {(each["kind"], each["metadata"]["name"]): each for each in yaml_documents(text)}
    for (kind, _), each in found.items():
        if kind == "CustomResourceDefinition":
            each["metadata"].pop("annotations", None)
        if kind == "Deployment":
            for container in each["spec"]["template"]["spec"]["containers"]:
                container.pop("imagePullPolicy", None)
    return {key: each for key, each in found.items() if key[0] != "Namespace"}


def write_chart(*flags: str) -> int:
    """Run `chart` as the program of the project does; return its exit code; skip the test without kubectl."""
    tool("kubectl")
    return main(("chart", "dist/chart", *flags), (), name="shop", version="0.1.0")


def rendered(*values: str) -> Objects:
    settings = [f"--set={value}" for value in values]
    return keyed(
        output_of(tool("helm"), "template", "shop", Path("dist/chart").absolute(), *PLACE, *settings)
    )


@pytest.mark.parametrize("webhooks", [False, True], ids=["without webhooks", "with webhooks"])
def test_chart_renders_the_objects_of_the_kustomize_overlays(command: Command, project: Path, webhooks: bool):
    helm, kubectl = tool("helm"), tool("kubectl")
    if webhooks:
        assert command(*WEBHOOKS).code == 0
    assert write_chart() == 0
    output_of(helm, "lint", "--strict", project / "dist/chart")
    for overlay, *values in (
        ("default",),
        ("high-availability", "manager.replicas=2"),
        ("shards", "manager.replicas=3", "manager.shards=16"),
    ):
        wanted = keyed(output_of(kubectl, "kustomize", project / "config" / overlay))
        if not webhooks:  # the chart opens no webhook port
            del wanted["NetworkPolicy", "shop-allow-webhook-traffic"]
        assert rendered(*values) == wanted


def test_chart_renders_alerts_only_when_its_values_enable_prometheus(project: Path):
    kustomization = project / "config/default/kustomization.yaml"
    for text in (kustomization.read_text(), kustomization.read_text().replace("#- ../prom", "- ../prom")):
        kustomization.write_text(text)
        assert write_chart() == 0
        assert ("PrometheusRule", "shop-controller-manager-rules") not in rendered()
        rules = rendered("prometheus.enable=true")["PrometheusRule", "shop-controller-manager-rules"]
        assert 'up{job="shop"}' in str(rules)


def test_chart_image_comes_from_the_image_flag_and_chart_values_add_environment_variables(project: Path):
    digest = "sha256:" + "a" * 64
    assert write_chart(f"--image=example.test/shop:2@{digest}") == 0
    made = rendered("manager.extraEnv[0].name=A", "manager.extraEnv[0].value=b")
    [container] = made["Deployment", "shop-controller-manager"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"example.test/shop:2@{digest}"
    assert container["env"] == [{"name": "A", "value": "b"}]


COMPANION = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: pet-store
  labels: {app.kubernetes.io/name: pet-store}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: pet-store}}
  template:
    metadata: {labels: {app.kubernetes.io/name: pet-store}}
    spec:
      containers: [{name: store, image: "example.test/store:1"}]
"""


def test_chart_uses_one_values_key_for_a_companion_whose_name_has_a_hyphen(project: Path):
    (project / "config/default/pet_store.yaml").write_text(COMPANION)
    kustomization = project / "config/default/kustomization.yaml"
    text = kustomization.read_text()
    kustomization.write_text(text.replace("resources:\n", "resources:\n- pet_store.yaml\n"))
    assert write_chart() == 0
    chart = project / "dist/chart"
    [values] = yaml_documents((chart / "values.yaml").read_text())
    assert values["petStore"]["enable"] is True
    assert "{{- if .Values.petStore.enable }}" in (chart / "templates/NOTES.txt").read_text()
    assert not [path for path in chart.rglob("*") if path.is_file() and "Values.pet-" in path.read_text()]
    deployment = ("Deployment", "shop-pet-store")
    assert deployment in rendered()
    assert deployment not in rendered("petStore.enable=false")


INVALID_IMAGE = "resources: [manager.yaml]\nimages: [{name: shop, newName: UPPER}]\n"


@pytest.mark.parametrize(
    ("flags", "path", "text", "expected"),
    [
        (("--image=A B",), "default", "resources:\n", "Invalid value for '--image': 'A B' is no image"),
        ((), "default", "resources: [../rbac]\n", "config/default has no Deployment shop-controller-manager"),
        ((), "default", "resources: [../nowhere]\n", "config/nowhere: no such file or directory"),
        ((), "manager", INVALID_IMAGE, "Deployment shop-controller-manager: 'UPPER"),
    ],
)
def test_chart_command_prints_one_error_line_and_writes_no_files_when_it_fails(
    project: Path, capsys: pytest.CaptureFixture[str], flags: Any, path: str, text: str, expected: str
):
    (project / "config" / path / "kustomization.yaml").write_text(text)
    assert write_chart(*flags) == (2 if flags else 1)
    err = capsys.readouterr().err
    assert err.startswith("shop: chart: ")
    assert expected in err
    assert err.count("\n") == 1
    assert not (project / "dist").exists()
