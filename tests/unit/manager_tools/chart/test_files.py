"""Helm chart: it renders the objects of config/, changed by its values."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from manager.util.version import VERSION
from manager.util.yaml_text import yaml_documents
from manager_tools.chart import OLDEST_KUBERNETES
from release.cli import main
from tests.support.manifests import MANAGER, PETSTORE, SYSTEM, Manifest, container_of, manifests
from tests.support.tools import output_of, tool

RELEASE = "operator-manager"
Objects = dict[tuple[str, str], Manifest]


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tool("kubectl")
    folder = tmp_path_factory.mktemp("dist") / "chart"
    assert main(["chart", str(folder)]) == 0
    return folder


@functools.cache
def helm_template(
    chart: Path, *values: str, release: str = RELEASE, namespace: str = SYSTEM, kubernetes: str = "1.36.0"
) -> subprocess.CompletedProcess[str]:
    settings = [f"--set={value}" for value in values]
    place = f"--namespace={namespace}"
    command = [tool("helm"), "template", release, chart, place, f"--kube-version={kubernetes}", *settings]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(chart: Path, *values: str, **place: str) -> Objects:
    done = helm_template(chart, *values, **place)
    assert done.returncode == 0, done.stderr
    return keyed(yaml_documents(done.stdout))


def keyed(objects: Any) -> Objects:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_chart_refuses_kubernetes_older_than_the_oldest_supported_version(chart: Path):
    assert helm_template(chart, kubernetes=OLDEST_KUBERNETES).returncode == 0
    done = helm_template(chart, kubernetes="1.29.9")
    assert done.returncode != 0
    assert f"requires kubeVersion: >={OLDEST_KUBERNETES}" in done.stderr


@pytest.mark.parametrize(
    ("values", "overlay"),
    [
        ((), "default"),
        (("certManager.enable=true",), "cert-manager"),
        (("manager.replicas=2",), "high-availability"),
        (("manager.replicas=3", "manager.shards=16"), "shards"),
    ],
)
def test_chart_with_matching_values_equals_each_overlay(chart: Path, values: tuple[str, ...], overlay: str):
    wanted = keyed(each for each in manifests(overlay) if each["kind"] != "Namespace")
    made = rendered(chart, *values)
    for (kind, name), each in made.items():
        if kind == "CustomResourceDefinition":
            annotations = each["metadata"]["annotations"]
            assert annotations.pop("helm.sh/resource-policy") == "keep", name
            if not annotations:
                del each["metadata"]["annotations"]
        if kind == "Deployment":
            assert container_of(each).pop("imagePullPolicy") == "IfNotPresent"
    assert made == wanted


def test_chart_objects_have_the_name_prefix_and_namespace_of_the_release(chart: Path):
    made = rendered(chart, release="second", namespace="elsewhere")
    named = [name for kind, name in made if kind != "CustomResourceDefinition"]
    assert all(name.startswith("second-") for name in named)
    assert {each["metadata"].get("namespace") for each in made.values()} == {None, "elsewhere"}
    subjects = [subject for each in made.values() for subject in each.get("subjects", ())]
    bound = {(each["name"], each["namespace"]) for each in subjects}
    assert bound == {("second-controller-manager", "elsewhere")}
    (condition,) = made["ValidatingAdmissionPolicy", "second-manager-limits"]["spec"]["matchConditions"]
    assert "'elsewhere' + ':' + 'second-controller-manager'" in condition["expression"]
    binding = made["ValidatingAdmissionPolicyBinding", "second-manager-limits"]
    assert binding["spec"]["policyName"] == "second-manager-limits"
    without = rendered(chart, "admissionPolicy.enable=false")
    assert not [kind for kind, _ in without if "AdmissionPolicy" in kind]


def test_chart_webhook_values_set_the_port_and_the_addresses_that_may_reach_it(chart: Path):
    values = ("webhook.port=10250", "networkPolicy.enable=true", "networkPolicy.apiServers={10.0.0.5/32}")
    made = rendered(chart, *values)
    container = container_of(made["Deployment", MANAGER])
    assert "--webhook-bind-address=:10250" in container["args"]
    assert 10250 in [each["containerPort"] for each in container["ports"]]
    (rule,) = made["NetworkPolicy", "operator-manager-allow-webhook-traffic"]["spec"]["ingress"]
    assert rule["from"] == [{"ipBlock": {"cidr": "10.0.0.5/32"}}]
    assert rule["ports"] == [{"port": 10250, "protocol": "TCP"}]


def test_chart_with_webhooks_disabled_omits_webhook_objects_but_renders_crds_with_conversion(chart: Path):
    values = ("webhook.enable=false", "certManager.enable=true", "networkPolicy.enable=true")
    made = rendered(chart, *values)
    assert not [name for kind, name in made if "webhook" in name or kind in {"Certificate", "Issuer"}]
    container = container_of(made["Deployment", MANAGER])
    assert "--webhook-bind-address=0" in container["args"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {each["name"] for each in container["ports"]} == {"health", "metrics"}
    assert not [each for each in made.values() if "cert-manager.io" in str(each["metadata"])]
    # Without the conversion webhook, a read in another API version would lose fields.
    wanted = {each["metadata"]["name"] for each in manifests() if "conversion" in each.get("spec", {})}
    assert {name for (_, name), each in made.items() if "conversion" in each.get("spec", {})} == wanted


def test_chart_values_set_images_flags_environment_variables_and_resources(chart: Path):
    made = rendered(
        chart,
        "manager.image.repository=local.test:5000/om",
        "manager.image.tag=v9",
        "manager.extraArgs={--namespaces=a,--log-level=debug}",
        "manager.extraEnv[0].name=HTTPS_PROXY",
        "manager.extraEnv[0].value=http://proxy.local:3128",
        "manager.resources.limits.memory=1Gi",
        "petstore.storage=5Gi",
    )
    container = container_of(made["Deployment", MANAGER])
    assert container["image"] == "local.test:5000/om:v9"
    assert container["args"][-2:] == ["--namespaces=a", "--log-level=debug"]
    assert container["env"][-1] == {"name": "HTTPS_PROXY", "value": "http://proxy.local:3128"}
    assert container["resources"]["limits"]["memory"] == "1Gi"
    assert container_of(made["Deployment", PETSTORE])["image"] == f"petstore:{VERSION}"
    claim = made["PersistentVolumeClaim", "operator-manager-petstore-data"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"


# Many wrong values in one call, because helm is slow; values for the same key need separate calls.
WRONG = (
    (
        ("manager.replicas=two", "/manager/replicas"),
        ("manager.image.tga=v1", "'tga'"),
        ("manager.shards=many", "/manager/shards"),
        ("manager.image.pullPolicy=Sometimes", "/manager/image/pullPolicy"),
        ("manager.image.digest=sha256:1", "/manager/image/digest"),
        ("manager.extraArgs={run}", "/manager/extraArgs/0"),
        ("petstore.storage=lots", "/petstore/storage"),
        ("crd.keep=maybe", "/crd/keep"),
        ("webhook.port=https", "/webhook/port"),
        ("networkPolicy.apiServers={kubernetes}", "/networkPolicy/apiServers/0"),
        ("replicas=2", "'replicas'"),
        ("manager.podLabels.control-plane=x", "/manager/podLabels"),
        ("manager.podDisruptionBudget.maxUnavailable=many", "/manager/podDisruptionBudget/maxUnavailable"),
        ("manager.resources.limit.cpu=1", "'limit'"),
        ("manager.affinity.nodes=x", "'nodes'"),
        ('manager.image.repository=x"\n        hostPID: true', "/manager/image/repository"),
        ("petstore.image.repository=", "/petstore/image/repository"),
        ('manager.image.tag=1"\n        hostPID: true', "/manager/image/tag"),
        ("petstore.image.tag=1\n", "/petstore/image/tag"),
    ),
    (("manager.extraArgs=--log-level=debug", "/manager/extraArgs"), ("manager.image.tag=-", "/image/tag")),
    *(((f"manager.shards={value}", "/manager/shards"),) for value in (1, 3, 512, -2)),
)


@pytest.mark.parametrize("wrong", WRONG)
def test_chart_error_names_each_invalid_value(chart: Path, wrong: tuple[tuple[str, str], ...]):
    done = helm_template(chart, *(value for value, _ in wrong))
    assert done.returncode != 0
    assert [named for _, named in wrong if named not in done.stderr] == []


def test_chart_merges_pod_labels_node_selectors_and_resources_with_the_defaults(chart: Path):
    values = (
        *("podAnnotations.team=a", "podLabels.cost=b", "priorityClassName=high"),
        *("nodeSelector.disk=ssd", "resources.limits.memory=1Gi"),
    )
    flags = [f"{program}.{value}" for program in ("manager", "petstore") for value in values]
    before, made = rendered(chart), rendered(chart, *flags)
    for name in (MANAGER, PETSTORE):
        old, new = (each["Deployment", name]["spec"]["template"] for each in (before, made))
        metadata = old["metadata"]
        annotations = {**metadata.get("annotations", {}), "team": "a"}
        assert new["metadata"] == {"annotations": annotations, "labels": {**metadata["labels"], "cost": "b"}}
        assert new["spec"]["priorityClassName"] == "high"
        assert new["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", "disk": "ssd"}
        limits = old["spec"]["containers"][0]["resources"]["limits"]
        assert new["spec"]["containers"][0]["resources"]["limits"] == {**limits, "memory": "1Gi"}


def test_chart_values_limit_or_disable_the_pod_disruption_budget(chart: Path):
    asked = ("manager.replicas=3", "manager.podDisruptionBudget.maxUnavailable=50%")
    assert rendered(chart, *asked)["PodDisruptionBudget", MANAGER]["spec"]["maxUnavailable"] == "50%"
    without = ("manager.replicas=2", "manager.podDisruptionBudget.enable=false")
    assert ("PodDisruptionBudget", MANAGER) not in rendered(chart, *without)


def test_chart_grants_rights_to_shard_leases_only_when_shards_are_enabled(chart: Path):
    values = ("manager.shards=8", "manager.extraArgs={--log-level=debug}")
    made = rendered(chart, *values, release="second", namespace="elsewhere")
    deployment = made["Deployment", "second-controller-manager"]
    assert container_of(deployment)["args"][-2:] == ["--shards=8", "--log-level=debug"]
    assert deployment["spec"]["replicas"] == 1
    role, binding = (made[kind, f"second-shards-{kind.lower()}"] for kind in ("Role", "RoleBinding"))
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "elsewhere"
    assert [each["name"] for each in binding["subjects"]] == ["second-controller-manager"]
    for without in (), ("manager.shards=0",), ("manager.replicas=3",):
        made = rendered(chart, *without)
        assert not [name for _, name in made if "shards" in name]
        assert "--shards" not in str(container_of(made["Deployment", MANAGER])["args"])


def test_chart_without_the_petstore_omits_petstore_objects_but_keeps_its_crds(chart: Path):
    values = ("petstore.enable=false", "petstore.address=pets.local:1234")
    made = rendered(chart, *values, "prometheus.enable=true", "networkPolicy.enable=true")
    kinds = {kind for kind, name in made if "petstore" in name}
    assert kinds == {"CustomResourceDefinition"}
    (variable,) = container_of(made["Deployment", MANAGER])["env"]
    assert variable["value"] == "pets.local:1234"


RELEASED = {
    *("SHA256SUMS", "install.yaml", "sbom.cdx.json", f"operator-manager-{VERSION}.tgz"),
    *(f"operator-manager-{each}-{VERSION}.tar.gz" for each in ("bundle", "images")),
    *(f"operator_manager{each}-{VERSION}-py3-none-any.whl" for each in ("", "_operators")),
}


def release(folder: Path) -> dict[str, bytes]:
    """Create all files of a release in a new folder; return their contents by name."""
    folder.mkdir()
    (folder / "sbom.cdx.json").write_text("{}")
    images = ("--image=local.test/om:v1", "--petstore-image=local.test/ps")
    assert main(["everything", str(folder), *images]) == 0
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.whole
def test_release_command_writes_identical_files_at_a_different_time_and_with_another_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tool("kubectl")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = release(tmp_path / "first")
    assert first.keys() == RELEASED
    output_of("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=tmp_path / "first")
    before = os.umask(0o077)
    try:
        assert release(tmp_path / "second") == first
    finally:
        os.umask(before)
    assert b"local.test/om:v1" in first["install.yaml"]
    archive = tmp_path / "first" / f"operator-manager-{VERSION}.tgz"
    assert "local.test/om:v1" in output_of(tool("helm"), "template", "pets", archive, "--kube-version=1.36")
