"""The bundle keeps the rules that OLM publishes for the format registry+v1."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from controllers.main import OPERATORS, PROGRAM
from manager.cli.settings import OWN
from manager.settings import Setting
from manager.util.version import VERSION
from release import OLDEST_KUBERNETES
from release.cli import main
from release.configuration import BEGIN, END, NoTables, with_tables
from tests.support import ROOT
from tests.support.manifests import MANAGER, Manifest, container_of, flags_of, manifests, pod_of, the
from tests.support.markdown import Page
from tests.support.settings import load_declared, load_settings, parse_flags
from tests.unit.cli.conftest import operator

# Kinds that a bundle may contain besides the definitions and the one ClusterServiceVersion.
SUPPORTED = {
    *("ClusterRole", "ClusterRoleBinding", "ConfigMap", "Role", "RoleBinding", "Secret", "Service"),
    *("PodDisruptionBudget", "PriorityClass", "PrometheusRule", "ServiceMonitor"),
}
CSV = "operator-manager.clusterserviceversion.yaml"
IMAGE = "local.test:5000/om:v2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on the PATH")
    made = tmp_path_factory.mktemp("bundle")
    assert main(["bundle", f"--image={IMAGE}", str(made)]) == 0
    return made


@pytest.fixture(scope="module")
def csv(folder: Path) -> Manifest:
    return load(folder / "bundle" / "manifests" / CSV)


def load(path: Path) -> Manifest:
    found: Manifest = yaml.safe_load(path.read_text())
    return found


def others(folder: Path) -> Iterator[Manifest]:
    return (load(path) for path in (folder / "bundle" / "manifests").iterdir() if path.name != CSV)


def definitions(folder: Path) -> list[Manifest]:
    return [each for each in others(folder) if each["kind"] == "CustomResourceDefinition"]


def test_bundle_holds_only_kinds_that_olm_supports(folder: Path):
    kinds = {each["kind"] for each in others(folder)}
    assert kinds - {"CustomResourceDefinition"} <= SUPPORTED


def test_name_and_version_are_this_version(csv: Manifest):
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
    assert csv["metadata"]["name"] == f"operator-manager.v{VERSION}"
    assert csv["spec"]["version"] == VERSION


def test_service_version_has_every_field_that_a_catalogue_shows(csv: Manifest):
    for field in ("displayName", "description", "keywords", "maintainers", "provider", "maturity"):
        assert csv["spec"][field], field
    assert csv["spec"]["minKubeVersion"] == OLDEST_KUBERNETES
    for name in ("capabilities", "categories", "containerImage", "description", "alm-examples"):
        assert csv["metadata"]["annotations"][name], name


def test_service_version_has_an_svg_icon(csv: Manifest):
    (icon,) = csv["spec"]["icon"]
    assert icon["mediatype"] == "image/svg+xml"
    root = ElementTree.fromstring(base64.b64decode(icon["base64data"]))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_service_version_supports_only_the_install_mode_of_all_namespaces(csv: Manifest):
    modes = {each["type"]: each["supported"] for each in csv["spec"]["installModes"]}
    narrower = dict.fromkeys(("OwnNamespace", "SingleNamespace", "MultiNamespace"), False)
    assert modes == {**narrower, "AllNamespaces": True}


def test_every_definition_is_owned_and_every_owned_one_is_there(folder: Path, csv: Manifest):
    owned = {
        (each["name"], each["kind"], each["version"])
        for each in csv["spec"]["customresourcedefinitions"]["owned"]
    }
    assert owned == {
        (each["metadata"]["name"], each["spec"]["names"]["kind"], version["name"])
        for each in definitions(folder)
        for version in each["spec"]["versions"]
    }
    assert owned


def test_descriptors_name_fields_that_exist_and_all_of_them(folder: Path, csv: Manifest):
    schemas = {
        (each["metadata"]["name"], version["name"]): version["schema"]["openAPIV3Schema"]["properties"]
        for each in definitions(folder)
        for version in each["spec"]["versions"]
    }
    for owned in csv["spec"]["customresourcedefinitions"]["owned"]:
        assert owned["displayName"]
        assert owned["description"]
        for part in ("spec", "status"):
            described = owned[f"{part}Descriptors"]
            properties = schemas[owned["name"], owned["version"]][part]["properties"]
            assert {each["path"] for each in described} == set(properties)
            assert all(each["displayName"] and each["description"] for each in described)


def test_service_version_has_an_example_of_every_owned_kind(csv: Manifest):
    examples: list[dict[str, Any]] = json.loads(csv["metadata"]["annotations"]["alm-examples"])
    kinds = {each["kind"] for each in csv["spec"]["customresourcedefinitions"]["owned"]}
    assert {each["kind"] for each in examples} == kinds
    # Further objects of a sample, such as a Secret, are no examples of our kinds.
    assert examples == [each for each in manifests("samples") if each["kind"] in kinds]


def test_the_deployment_is_the_one_of_config_default_with_the_certificate_that_olm_mounts(csv: Manifest):
    (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
    assert csv["spec"]["install"]["strategy"] == "deployment"
    wanted = the("Deployment", MANAGER)
    assert deployment["name"] == MANAGER
    made = {"spec": deployment["spec"]}
    assert container_of(made)["image"] == IMAGE
    mounted = "--webhook-cert-path=/tmp/k8s-webhook-server/serving-certs"
    assert flags_of(made) == [*flags_of(wanted), mounted]
    assert load_settings(parse_flags(flags_of(made))).webhook_cert_path
    assert pod_of(made)["securityContext"] == pod_of(wanted)["securityContext"]
    assert container_of(made)["env"] == []


def test_webhooks_are_defined_as_they_are_configured(csv: Manifest):
    wanted = {
        webhook["name"]: (each["kind"].replace("WebhookConfiguration", "AdmissionWebhook"), webhook)
        for each in manifests()
        for webhook in each.get("webhooks", ())
    }
    webhooks = csv["spec"]["webhookdefinitions"]
    defined = {each["generateName"]: each for each in webhooks if each["type"] != "ConversionWebhook"}
    assert defined.keys() == wanted.keys()
    for name, (kind, webhook) in wanted.items():
        found = defined[name]
        assert found["type"] == kind
        assert found["webhookPath"] == webhook["clientConfig"]["service"]["path"]
        for field in webhook.keys() - {"name", "clientConfig"}:
            assert found[field] == webhook[field]


def test_conversion_is_defined_for_the_definitions_that_ask_for_it(folder: Path, csv: Manifest):
    converted = {
        each["metadata"]["name"]: each for each in definitions(folder) if "conversion" in each["spec"]
    }
    (conversion,) = [
        each for each in csv["spec"]["webhookdefinitions"] if each["type"] == "ConversionWebhook"
    ]
    assert set(conversion["conversionCRDs"]) == converted.keys()
    for each in converted.values():
        service = each["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
        assert service["path"] == conversion["webhookPath"]
        # OLM fills in the Service's address later.
        assert service["name"] == f"{MANAGER}-service"


def test_webhooks_are_served_at_the_port_of_the_deployment(csv: Manifest):
    (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
    ports = {each["name"]: each["containerPort"] for each in container_of(deployment)["ports"]}
    for each in csv["spec"]["webhookdefinitions"]:
        assert each["deploymentName"] == deployment["name"]
        assert (each["containerPort"], each["targetPort"]) == (443, ports["webhook-server"])


def test_permissions_are_those_that_the_bindings_give(csv: Manifest):
    install = csv["spec"]["install"]["spec"]
    account = pod_of(the("Deployment", MANAGER))["serviceAccountName"]
    for field, kind in (("clusterPermissions", "ClusterRoleBinding"), ("permissions", "RoleBinding")):
        (granted,) = install[field]
        assert granted["serviceAccountName"] == account
        bindings = [each for each in manifests() if each["kind"] == kind]
        # OLM manages the certificate.
        theirs = "operator-manager-webhook-"
        bindings = [each for each in bindings if not each["metadata"]["name"].startswith(theirs)]
        wanted = [
            rule
            for each in bindings
            for rule in the(each["roleRef"]["kind"], each["roleRef"]["name"])["rules"]
        ]
        if field == "clusterPermissions":
            wanted += the("ClusterRole", "owner-references-role", "owner-references")["rules"]
        assert granted["rules"] == wanted


def test_bundle_contains_no_sample(folder: Path):
    installed = {(each["kind"], each["metadata"]["name"]) for each in others(folder)}
    assert not installed & {(each["kind"], each["metadata"]["name"]) for each in manifests("samples")}


def test_bundle_leaves_out_the_objects_that_olm_makes(folder: Path):
    names = {each["metadata"]["name"] for each in others(folder)}
    assert "operator-manager-manager-role" not in names
    assert not [name for name in names if "webhook" in name]
    assert not [
        each for each in others(folder) if each["kind"] in {"ServiceAccount", "Deployment", "Namespace"}
    ]
    assert not [each for each in others(folder) if "namespace" in each["metadata"]]


def test_the_labels_of_the_image_are_the_annotations_of_the_bundle(folder: Path):
    annotations = load(folder / "bundle" / "metadata" / "annotations.yaml")["annotations"]
    lines = (folder / "bundle.Dockerfile").read_text().splitlines()
    labels = dict(line.removeprefix("LABEL ").split("=", 1) for line in lines if line.startswith("LABEL "))
    assert labels == annotations
    assert annotations["operators.operatorframework.io.bundle.channel.default.v1"] in annotations[
        "operators.operatorframework.io.bundle.channels.v1"
    ].split(",")


def test_bundle_dockerfile_copies_folders_that_exist_and_are_not_ignored(folder: Path):
    # The Dockerfiles of the project share one list of what an engine gets to see.
    seen = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [
        Path(line.split()[1])
        for line in (folder / "bundle.Dockerfile").read_text().splitlines()
        if line.startswith("COPY ")
    ]
    assert copied
    for path in copied:
        assert (folder / path).is_dir()
        assert any(path.is_relative_to(allowed) for allowed in seen), path


def test_bundle_command_removes_files_of_an_earlier_bundle(folder: Path):
    left = folder / "bundle" / "manifests" / "gone.yaml"
    left.write_text("kind: Gone\n")
    assert main(["bundle", f"--image={IMAGE}", str(folder)]) == 0
    assert not left.exists()


PAGE = Path("docs/configuration.md")
EMPTY = f"# Title\n\n{BEGIN}\n{END}\n\nMore.\n"
ROW = re.compile(r"^\| `(--[a-z-]+)", re.MULTILINE)


def test_every_setting_has_one_row():
    declared = [setting.flag for each in OPERATORS for setting in each.declared_settings]
    flags = [setting.flag for setting in OWN] + declared
    assert ROW.findall(with_tables(EMPTY, OPERATORS, PROGRAM)) == flags


def test_row_of_a_setting_has_flag_default_variable_and_description():
    text = with_tables(EMPTY, OPERATORS, PROGRAM)
    assert (
        "| `--namespaces NAME,...` | all | `OPERATOR_MANAGER_NAMESPACES`, `WATCH_NAMESPACE` | "
        "namespaces to watch |" in text
    )
    assert "| `--leader-elect[=BOOL]` | `false` | `OPERATOR_MANAGER_LEADER_ELECT` | reconcile only" in text
    assert "| `--petstore-address HOST:PORT` | `localhost:6742` | `PETSTORE_ADDRESS` | address" in text


def test_with_tables_escapes_pipes_in_cells():
    key = Setting("speech", default="a|b", description="loud|low", placeholder="A|B")
    row = next(
        line
        for line in with_tables(EMPTY, [operator("talk", key)], PROGRAM).splitlines()
        if line.startswith("| `--speech")
    )
    assert row == r"| `--speech A\|B` | `a\|b` | `SPEECH` | loud\|low |"


def test_with_tables_replaces_old_tables_and_keeps_the_text_around_them():
    once = with_tables(EMPTY, OPERATORS, PROGRAM)
    assert once.startswith("# Title\n")
    assert once.endswith(f"{END}\n\nMore.\n")
    assert with_tables(once, (), PROGRAM) == with_tables(EMPTY, (), PROGRAM)
    assert with_tables(once, OPERATORS, PROGRAM) == once


@pytest.mark.parametrize(
    "page",
    ["", f"{BEGIN}\n", f"{END}\n", f"{END}\n{BEGIN}\n", EMPTY + EMPTY],
    ids=["none", "no end", "no begin", "turned round", "twice"],
)
def test_with_tables_refuses_a_page_without_markers(page: str):
    with pytest.raises(NoTables, match="generated by"):
        with_tables(page, OPERATORS, PROGRAM)


def test_the_example_of_the_page_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (example,) = (block.text for block in Page(PAGE).blocks() if block.language == "yaml")
    file = tmp_path / "manager.yaml"
    file.write_text(example)
    keys = [setting for each in OPERATORS for setting in each.declared_settings]
    for variable in (setting.variable for setting in keys):
        monkeypatch.delenv(variable, raising=False)
    flags = {"config": str(file)}
    settings = load_settings(flags, keys)
    values = load_declared(keys, flags)
    assert settings.namespaces == ("team-a", "team-b")
    assert settings.concurrency == {"memcached": 4}
    assert settings.graceful_shutdown_timeout == 60
    assert [str(values[key]) for key in keys if key.name == "petstore-address"] == ["pets.example.test:6742"]
