"""The chart makes what config/default makes, and what its values say."""

from __future__ import annotations

import functools
import io
import os
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manager.util.program import Program
from manager.util.version import VERSION
from manager.util.yaml_text import yaml_documents
from manager.webhook import Admission, AdmissionRequest
from manager.webhook.configurations import webhook_configurations
from manager.webhook.registration import Webhooks
from manager_kinds.core_v1 import Pod
from manager_tools.codegen.manifest import UNPLACED
from release import OLDEST_KUBERNETES
from release.artifacts import context
from release.chart import _template
from release.cli import main
from tests.support.manifests import MANAGER, PETSTORE, SYSTEM, Manifest, container_of, flags_of, manifests
from tests.support.settings import load_settings, parse_flags
from tests.support.tools import tool
from tests.unit.config.test_dockerfile import COPIED

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
    chart: Path,
    *values: str,
    release: str = RELEASE,
    namespace: str = SYSTEM,
    kubernetes: str = "1.36.0",
) -> subprocess.CompletedProcess[str]:
    settings = [f"--set={value}" for value in values]
    place = f"--namespace={namespace}"
    command = [tool("helm"), "template", release, chart, place, f"--kube-version={kubernetes}", *settings]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(chart: Path, *values: str, release: str = RELEASE, namespace: str = SYSTEM) -> Objects:
    done = helm_template(chart, *values, release=release, namespace=namespace)
    assert done.returncode == 0, done.stderr
    return keyed(each for each in yaml_documents(done.stdout))


def keyed(objects: Any) -> Objects:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_helm_finds_nothing_to_complain_about(chart: Path):
    done = subprocess.run(
        [tool("helm"), "lint", "--strict", chart], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_owner_references_binding_names_the_managers_account(chart: Path):
    objects = rendered(chart, "rbac.ownerReferences.enable=true", namespace="elsewhere")
    binding = objects["ClusterRoleBinding", "operator-manager-owner-references-rolebinding"]
    [subject] = binding["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": MANAGER, "namespace": "elsewhere"}
    assert ("ServiceAccount", subject["name"]) in objects


def test_chart_requires_the_oldest_supported_kubernetes(chart: Path):
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
def test_chart_renders_the_same_objects_as_the_overlay(chart: Path, values: tuple[str, ...], overlay: str):
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


def test_names_and_namespace_are_those_of_the_release(chart: Path):
    made = rendered(chart, release="second", namespace="elsewhere")
    named = [name for kind, name in made if kind != "CustomResourceDefinition"]
    assert all(name.startswith("second-") for name in named)
    assert {each["metadata"].get("namespace") for each in made.values()} == {None, "elsewhere"}
    subjects = [subject for each in made.values() for subject in each.get("subjects", ())]
    assert {(each["name"], each["namespace"]) for each in subjects} == {
        ("second-controller-manager", "elsewhere")
    }


def test_the_policy_is_for_the_account_of_the_release(chart: Path):
    made = rendered(chart, release="second", namespace="elsewhere")
    (condition,) = made["ValidatingAdmissionPolicy", "second-manager-limits"]["spec"]["matchConditions"]
    assert "'elsewhere' + ':' + 'second-controller-manager'" in condition["expression"]
    binding = made["ValidatingAdmissionPolicyBinding", "second-manager-limits"]
    assert binding["spec"]["policyName"] == "second-manager-limits"
    assert not [
        kind for kind, _ in rendered(chart, "admissionPolicy.enable=false") if "AdmissionPolicy" in kind
    ]


def test_the_api_server_is_led_to_the_webhooks_of_the_release(chart: Path):
    made = rendered(chart, "certManager.enable=true", release="second", namespace="elsewhere")
    service = "second-webhook-service"
    assert ("Service", service) in made
    called = list(services_called(made))
    assert called
    assert all((each["name"], each["namespace"]) == (service, "elsewhere") for each in called)
    certificate = made["Certificate", "second-serving-cert"]["spec"]
    assert certificate["dnsNames"] == [f"{service}.elsewhere.svc", f"{service}.elsewhere.svc.cluster.local"]
    assert certificate["secretName"] == "second-webhook-server-cert"
    trusting = [
        each for each in made.values() if "Webhook" in each["kind"] or "conversion" in each.get("spec", {})
    ]
    assert trusting
    for each in trusting:
        annotation = each["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        assert annotation == "elsewhere/second-serving-cert"


def test_the_namespace_that_webhooks_for_others_leave_out_is_that_of_the_release():
    pods = Admission(Pod)

    @pods.validate_create
    async def check(pod: Pod, request: AdmissionRequest) -> None: ...

    (made,) = webhook_configurations(Webhooks([pods]), UNPLACED, Program("operator-manager", "1"), prefix="")
    text = _template(made, None)
    (key, release) = ("kubernetes.io/metadata.name", "'{{ .Release.Namespace }}'")
    assert re.search(rf"- key: {key}\n +operator: NotIn\n +values:\n +- {release}\n", text), text


def services_called(made: Objects) -> Iterator[Manifest]:
    """Yield the Services that admission and conversion call."""
    for each in made.values():
        if "webhooks" in each:
            yield from (webhook["clientConfig"]["service"] for webhook in each["webhooks"])
        elif "conversion" in each.get("spec", {}):
            yield each["spec"]["conversion"]["webhook"]["clientConfig"]["service"]


def test_the_manager_looks_after_the_certificate_under_the_names_of_the_release(chart: Path):
    made = rendered(chart, release="second", namespace="elsewhere")
    assert (
        "--webhook-name-prefix=second-"
        in container_of(made["Deployment", "second-controller-manager"])["args"]
    )
    secret = made["Role", "second-webhook-certificate-role"]["rules"]
    assert [each["resourceNames"] for each in secret if "resourceNames" in each] == [
        ["second-webhook-server-cert"]
    ]
    injection = made["ClusterRole", "second-webhook-injection-role"]["rules"]
    configurations = {name for kind, name in made if kind.endswith("WebhookConfiguration")}
    named = {name for rule in injection for name in rule["resourceNames"]}
    assert configurations <= named
    assert {each for each in named if each.endswith("-configuration")} == configurations


def test_webhooks_listen_where_the_value_says_and_only_api_servers_reach_them(chart: Path):
    made = rendered(
        chart, "webhook.port=10250", "networkPolicy.enable=true", "networkPolicy.apiServers={10.0.0.5/32}"
    )
    container = container_of(made["Deployment", MANAGER])
    assert "--webhook-bind-address=:10250" in container["args"]
    (port,) = [each for each in container["ports"] if each["name"] == "webhook-server"]
    assert port["containerPort"] == 10250
    (rule,) = made["NetworkPolicy", "operator-manager-allow-webhook-traffic"]["spec"]["ingress"]
    assert rule == {
        "from": [{"ipBlock": {"cidr": "10.0.0.5/32"}}],
        "ports": [{"port": 10250, "protocol": "TCP"}],
    }


def test_chart_without_webhooks_keeps_only_the_conversion_of_definitions(chart: Path):
    values = ("webhook.enable=false", "certManager.enable=true", "networkPolicy.enable=true")
    made = rendered(chart, *values)
    assert not [name for kind, name in made if "webhook" in name or kind in {"Certificate", "Issuer"}]
    container = container_of(made["Deployment", MANAGER])
    assert "--webhook-bind-address=0" in container["args"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {each["name"] for each in container["ports"]} == {"health", "metrics"}
    assert not [each for each in made.values() if "cert-manager.io" in str(each["metadata"])]
    # Reading objects of another version as if nothing had to be converted would lose what differs.
    wanted = {each["metadata"]["name"] for each in manifests() if "conversion" in each.get("spec", {})}
    assert {name for (_, name), each in made.items() if "conversion" in each.get("spec", {})} == wanted


def test_images_flags_variables_and_resources_are_as_the_values_say(chart: Path):
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


def test_chart_values_set_pull_secrets_digest_tolerations_and_affinity(chart: Path):
    digest = f"sha256:{'0' * 64}"
    made = rendered(
        chart,
        "imagePullSecrets[0].name=registry",
        f"manager.image.digest={digest}",
        "manager.tolerations[0].operator=Exists",
        "petstore.affinity.nodeAffinity.x=y",
    )
    manager, store = (made["Deployment", name]["spec"]["template"]["spec"] for name in (MANAGER, PETSTORE))
    assert manager["imagePullSecrets"] == store["imagePullSecrets"] == [{"name": "registry"}]
    assert manager["containers"][0]["image"] == f"operator-manager:{VERSION}@{digest}"
    assert manager["tolerations"] == [{"operator": "Exists"}]
    assert store["affinity"] == {"nodeAffinity": {"x": "y"}}
    assert "affinity" not in manager
    assert "tolerations" not in store


# Together, as each takes a helm: of values that are refused at one place, one.
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
        ("manager.podAnnotations=x", "/manager/podAnnotations"),
        ("manager.podDisruptionBudget.maxUnavailable=many", "/manager/podDisruptionBudget/maxUnavailable"),
        ("manager.topologySpreadConstraints=x", "/manager/topologySpreadConstraints"),
        ("petstore.resources=x", "/petstore/resources"),
        ("manager.resources.limit.cpu=1", "'limit'"),
        ("manager.affinity.nodes=x", "'nodes'"),
        ('manager.image.repository=x"\n        hostPID: true', "/manager/image/repository"),
        ("petstore.image.repository=", "/petstore/image/repository"),
        ('manager.image.tag=1"\n        hostPID: true', "/manager/image/tag"),
        ("petstore.image.tag=1\n", "/petstore/image/tag"),
    ),
    (
        ("manager.extraArgs=--log-level=debug", "/manager/extraArgs"),
        ("manager.image.tag=-", "/manager/image/tag"),
    ),
    *(((f"manager.shards={value}", "/manager/shards"),) for value in (1, 3, 512, -2)),
)


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_values_are_refused_by_their_names(chart: Path, wrong: tuple[tuple[str, str], ...]):
    done = helm_template(chart, *(value for value, _ in wrong))
    assert done.returncode != 0
    assert [named for _, named in wrong if named not in done.stderr] == []


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("operator-manager", "v1.2.3"),
        ("localhost:5000/a/b", "main_1"),
        ("Registry.example.com/a.b/c__d", "T-" + "x" * 126),
    ],
)
def test_an_image_is_named_as_registries_do(chart: Path, name: str, tag: str):
    made = rendered(chart, f"manager.image.repository={name}", f"manager.image.tag={tag}")
    [container] = made["Deployment", MANAGER]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"{name}:{tag}"


def test_values_of_a_chart_around_it_are_taken(chart: Path):
    assert rendered(chart, "global.region=here") == rendered(chart)


def test_chart_merges_pod_values_with_the_defaults(chart: Path):
    flags = [
        f"{program}.{value}"
        for program in ("manager", "petstore")
        for value in (
            "podAnnotations.team=a",
            "podLabels.cost=b",
            "priorityClassName=high",
            r"nodeSelector.disk=ssd",
            "resources.limits.memory=1Gi",
        )
    ]
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


def test_the_account_gets_annotations_and_the_managers_pods_another_spread(chart: Path):
    made = rendered(
        chart,
        r"manager.serviceAccount.annotations.example\.test/role=operator",
        "manager.topologySpreadConstraints[0].maxSkew=2",
        "manager.topologySpreadConstraints[0].topologyKey=zone",
    )
    account = made["ServiceAccount", MANAGER]["metadata"]["annotations"]
    assert account == {"example.test/role": "operator"}
    spread = made["Deployment", MANAGER]["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert spread == [{"maxSkew": 2, "topologyKey": "zone"}]


@pytest.mark.parametrize(
    "images",
    [
        (
            ("local.test:5000/team/om:1.0", "local.test:5000/team/om:1.0"),
            (f"local.test/om@sha256:{'0' * 64}", f"local.test/om:{VERSION}@sha256:{'0' * 64}"),
        ),
        (
            (f"om:{VERSION}", f"om:{VERSION}"),
            ("om", "om:latest"),
        ),
    ],
    ids=["full", "short"],
)
def test_the_images_that_it_is_made_for_are_the_default(images: tuple[tuple[str, str], ...], tmp_path: Path):
    tool("kubectl")
    flags = [
        f"--{program}={image}"
        for program, (image, _) in zip(("image", "petstore-image"), images, strict=True)
    ]
    assert main(["chart", str(tmp_path / "chart"), *flags]) == 0
    made = rendered(tmp_path / "chart")
    for name, (_, whole) in zip((MANAGER, PETSTORE), images, strict=True):
        assert container_of(made["Deployment", name])["image"] == whole
    other = rendered(tmp_path / "chart", "manager.image.tag=v2")
    assert ":v2" in container_of(other["Deployment", MANAGER])["image"]


def test_a_second_manager_brings_a_disruption_budget(chart: Path):
    assert not [kind for kind, _ in rendered(chart) if kind == "PodDisruptionBudget"]
    made = rendered(chart, "manager.replicas=2")
    assert made["Deployment", MANAGER]["spec"]["replicas"] == 2
    budget = made["PodDisruptionBudget", MANAGER]
    pods = made["Deployment", MANAGER]["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= pods.items()
    asked = ("manager.replicas=3", "manager.podDisruptionBudget.maxUnavailable=50%")
    assert rendered(chart, *asked)["PodDisruptionBudget", MANAGER]["spec"]["maxUnavailable"] == "50%"
    without = ("manager.replicas=2", "manager.podDisruptionBudget.enable=false")
    assert ("PodDisruptionBudget", MANAGER) not in rendered(chart, *without)


def test_replicas_that_share_the_objects_may_have_all_leases_of_the_release_and_others_may_not(chart: Path):
    values = ("manager.shards=8", "manager.extraArgs={--log-level=debug}")
    made = rendered(chart, *values, release="second", namespace="elsewhere")
    deployment = made["Deployment", "second-controller-manager"]
    assert container_of(deployment)["args"][-2:] == ["--shards=8", "--log-level=debug"]
    assert load_settings(parse_flags(flags_of(deployment))).shards == 8
    assert deployment["spec"]["replicas"] == 1
    role, binding = (made[kind, f"second-shards-{kind.lower()}"] for kind in ("Role", "RoleBinding"))
    assert {rule["resources"][0] for rule in role["rules"]} == {"leases"}
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "elsewhere"
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == ["second-controller-manager"]
    for without in (), ("manager.shards=0",), ("manager.replicas=3",):
        made = rendered(chart, *without)
        assert not [name for _, name in made if "shards" in name]
        assert "--shards" not in str(container_of(made["Deployment", MANAGER])["args"])


def test_alerts_keep_their_own_templates(chart: Path):
    made = rendered(chart, "prometheus.enable=true")
    (mine,) = [each for (kind, _), each in made.items() if kind == "PrometheusRule"]
    (wanted,) = [each for each in manifests("prometheus") if each["kind"] == "PrometheusRule"]
    assert mine["spec"] == wanted["spec"]


def test_chart_without_the_store_keeps_no_object_of_it_but_definitions(chart: Path):
    made = rendered(
        chart,
        *("petstore.enable=false", "petstore.address=pets.local:1234"),
        *("prometheus.enable=true", "networkPolicy.enable=true"),
    )
    definitions = "CustomResourceDefinition"
    assert not [name for kind, name in made if "petstore" in name and kind != definitions]
    (variable,) = container_of(made["Deployment", MANAGER])["env"]
    assert variable["value"] == "pets.local:1234"


def test_definitions_and_helper_roles_can_be_left_out(chart: Path):
    made = rendered(chart, "crd.enable=false", "rbac.helpers.enable=false")
    assert "CustomResourceDefinition" not in {kind for kind, _ in made}
    roles = {name.removeprefix("operator-manager-") for kind, name in made if kind == "ClusterRole"}
    assert roles == {"manager-role", "metrics-auth-role", "metrics-reader", "webhook-injection-role"}
    kept = rendered(chart, "crd.keep=false")
    assert not [name for (_, name), each in kept.items() if "annotations" in each["metadata"]]


def test_chart_command_refuses_a_folder_that_holds_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    tool("kubectl")
    precious = tmp_path / "precious"
    precious.write_text("here")
    assert main(["chart", str(tmp_path)]) == 1
    assert "holds something else" in capsys.readouterr().err
    assert precious.read_text() == "here"


HANDED_OUT = {
    *("SHA256SUMS", "install.yaml", "sbom.cdx.json", f"operator-manager-{VERSION}.tgz"),
    *(f"operator-manager-bundle-{VERSION}.tar.gz", f"operator-manager-images-{VERSION}.tar.gz"),
    *(
        f"operator_manager-{VERSION}-py3-none-any.whl",
        f"operator_manager_operators-{VERSION}-py3-none-any.whl",
    ),
}


def made(folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    (folder / "sbom.cdx.json").write_text("{}")
    assert (
        main(["everything", str(folder), "--image=local.test/om:v1", "--petstore-image=local.test/ps"]) == 0
    )
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.whole
def test_everything_command_is_reproducible_whatever_the_clock_and_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tool("kubectl")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = made(tmp_path / "first")
    assert first.keys() == HANDED_OUT
    strict = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=tmp_path / "first",
        capture_output=True,
        check=False,
    )
    assert strict.returncode == 0
    before = os.umask(0o077)
    try:
        assert made(tmp_path / "second") == first
    finally:
        os.umask(before)

    assert b"local.test/om:v1" in first["install.yaml"]
    archive = tmp_path / "first" / f"operator-manager-{VERSION}.tgz"
    command = [tool("helm"), "template", "pets", archive, "--kube-version=1.36"]
    rendered = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "local.test/om:v1" in rendered.stdout, rendered.stderr
    with zipfile.ZipFile(
        tmp_path / "first" / f"operator_manager_operators-{VERSION}-py3-none-any.whl"
    ) as wheel:
        assert "controllers/main.py" in wheel.namelist()


def test_context_holds_every_path_that_the_dockerfile_copies():
    _, packed = context()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        modes = {entry.name: entry.mode for entry in archive}
    for name in ["Dockerfile", ".dockerignore", *COPIED]:
        assert [path for path in modes if path == name or path.startswith(f"{name}/")], name
    assert modes["scripts/restarting"] == 0o755
    assert not [path for path in modes if path.startswith(("tests/", "docs/"))]


@pytest.mark.parametrize(
    ("missing", "said"),
    [("sbom.cdx.json", "`make sbom` writes it"), ("heading", f"has no heading for version {VERSION}")],
)
def test_everything_command_writes_nothing_when_an_input_is_missing(
    missing: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    if missing == "heading":
        changelog = tmp_path / "CHANGELOG.md"
        changelog.write_text("# Changelog\n\n## Unreleased\n")
        monkeypatch.setattr("release.cli._CHANGELOG", changelog)
    dist = tmp_path / "dist"
    dist.mkdir()
    assert main(["everything", str(dist)]) == 1
    assert said in capsys.readouterr().err
    assert list(dist.iterdir()) == []


def test_everything_command_is_refused_outside_of_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    tool("kubectl")
    tool("git")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    (tmp_path / "sbom.cdx.json").touch()
    assert main(["everything", str(tmp_path)]) == 1
    assert "a release is made of a commit" in capsys.readouterr().err
