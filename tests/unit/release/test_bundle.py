"""The bundle follows OLM's rules for the format registry+v1."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from release.cli import main
from tests.support.manifests import MANAGER, Manifest, container_of, flags_of, manifests, pod_of, the
from tests.support.settings import load_settings, parse_flags

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


def test_bundle_csv_owns_exactly_the_crds_in_the_bundle(folder: Path, csv: Manifest):
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


def test_bundle_deployment_equals_config_default_except_for_the_olm_certificate(csv: Manifest):
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


def test_bundle_csv_webhooks_equal_the_webhook_configurations(csv: Manifest):
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


def test_bundle_csv_has_a_conversion_webhook_for_each_converted_crd(folder: Path, csv: Manifest):
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


def test_bundle_csv_permissions_equal_the_bound_roles(csv: Manifest):
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


def test_bundle_omits_the_objects_that_olm_creates(folder: Path):
    names = {each["metadata"]["name"] for each in others(folder)}
    assert "operator-manager-manager-role" not in names
    assert not [name for name in names if "webhook" in name]
    assert not [
        each for each in others(folder) if each["kind"] in {"ServiceAccount", "Deployment", "Namespace"}
    ]
    assert not [each for each in others(folder) if "namespace" in each["metadata"]]
