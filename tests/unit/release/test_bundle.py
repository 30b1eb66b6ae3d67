"""OLM bundle, compared with config/; integration/test_foreign_kinds.py checks the bundle by OLM's rules."""

from __future__ import annotations

from pathlib import Path

import yaml

from release.cli import main
from tests.support.manifests import MANAGER, container_of, flags_of, manifests, pod_of, the
from tests.support.tools import tool

CSV = "operator-manager.clusterserviceversion.yaml"
IMAGE = "local.test:5000/om:v2"


def test_olm_bundle_has_the_same_crds_webhooks_rights_and_deployment_as_the_manifests(tmp_path: Path):
    tool("kubectl")
    assert main(["bundle", f"--image={IMAGE}", str(tmp_path)]) == 0
    files = (tmp_path / "bundle" / "manifests").iterdir()
    found = {path.name: yaml.safe_load(path.read_text()) for path in files}
    spec = found.pop(CSV)["spec"]
    (deployment,) = spec["install"]["spec"]["deployments"]
    wanted = the("Deployment", MANAGER)
    assert (deployment["name"], container_of(deployment)["image"]) == (MANAGER, IMAGE)
    certificate = "--webhook-cert-path=/tmp/k8s-webhook-server/serving-certs"
    assert flags_of(deployment) == [*flags_of(wanted), certificate]
    assert pod_of(deployment)["securityContext"] == pod_of(wanted)["securityContext"]
    webhooks = {webhook["name"]: webhook for each in manifests() for webhook in each.get("webhooks", ())}
    admission = {each["generateName"]: each for each in spec["webhookdefinitions"]}
    conversion = next(each for each in admission.values() if each["type"] == "ConversionWebhook")
    assert admission.keys() - {conversion["generateName"]} == webhooks.keys()
    for name, webhook in webhooks.items():
        assert admission[name]["webhookPath"] == webhook["clientConfig"]["service"]["path"]
        assert admission[name]["rules"] == webhook["rules"]
    crds = [each for each in found.values() if each["kind"] == "CustomResourceDefinition"]
    owned = {(each["name"], each["version"]) for each in spec["customresourcedefinitions"]["owned"]}
    assert owned == {
        (each["metadata"]["name"], version["name"]) for each in crds for version in each["spec"]["versions"]
    }
    converted = {each["metadata"]["name"] for each in crds if "conversion" in each["spec"]}
    assert set(conversion["conversionCRDs"]) == converted
    further = {"clusterPermissions": the("ClusterRole", "owner-references-role", "owner-references")["rules"]}
    for field, kind in (("clusterPermissions", "ClusterRoleBinding"), ("permissions", "RoleBinding")):
        (granted,) = spec["install"]["spec"][field]
        assert granted["serviceAccountName"] == pod_of(wanted)["serviceAccountName"]
        bindings = [each for each in manifests() if each["kind"] == kind]
        # OLM manages the certificate.
        roles = [each["roleRef"] for each in bindings if "-webhook-" not in each["metadata"]["name"]]
        rules = [rule for role in roles for rule in the(role["kind"], role["name"])["rules"]]
        assert granted["rules"] == [*rules, *further.get(field, ())]
    # OLM creates the account, the Deployment and the webhooks' objects.
    assert not [each for each in found.values() if each["kind"] in {"ServiceAccount", "Deployment"}]
    assert not [each for each in found.values() if "webhook" in each["metadata"]["name"]]
