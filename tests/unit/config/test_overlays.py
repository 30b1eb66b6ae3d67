"""Overlays of config/: their contents match the flags and rights of the program."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from controllers.main import OPERATORS, PROGRAM
from manager.cli.settings import Settings
from manager.process.manager import EVENTS_FLUSH_TIMEOUT
from manager.util.address import parse_bind_address
from manager.util.yaml_text import yaml_documents
from manager.webhook.configurations import MUTATING, SECRET, VALIDATING
from manager.webhook.server import LIMITS
from manager_tools.chart import build
from manager_tools.codegen.namespaces import limited_to
from petstore.cli.commands import commands
from tests.support import ROOT
from tests.support.manifests import (
    MANAGER,
    OVERLAYS,
    PETSTORE,
    SYSTEM,
    Manifest,
    container_of,
    flags_of,
    manifests,
    pod_of,
    the,
)
from tests.support.settings import load_settings, params_of, parse_flags
from tests.support.tools import tool

WEBHOOK_SERVICE = "operator-manager-webhook-service"


def settings_of(deployment: Manifest) -> Settings:
    """Return the settings that the flags in a manager's Deployment select."""
    return load_settings(parse_flags(flags_of(deployment)))


def of_kind(kind: str, overlay: str = "default") -> list[Manifest]:
    return [each for each in manifests(overlay) if each["kind"] == kind]


def labels_of(deployment: Manifest) -> dict[str, str]:
    """Return the labels of the Deployment's pods."""
    labels: dict[str, str] = deployment["spec"]["template"]["metadata"]["labels"]
    return labels


def ports_of(deployment: Manifest) -> dict[str, int]:
    return {each["name"]: each["containerPort"] for each in container_of(deployment)["ports"]}


def names_of(made: Iterable[Manifest]) -> set[str]:
    return {each["metadata"]["name"] for each in made}


def converted_crds(overlay: str = "default") -> list[Manifest]:
    """Return the CRDs whose versions a webhook converts."""
    crds = of_kind("CustomResourceDefinition", overlay)
    return [each for each in crds if "conversion" in each["spec"]]


def test_manifests_need_only_the_kubectl_program_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    assert manifests()  # skips this test without any kubectl
    monkeypatch.setenv("KUBECTL", shutil.which(os.environ.get("KUBECTL") or "kubectl") or "")
    monkeypatch.setenv("PATH", "")
    assert manifests()
    monkeypatch.setenv("KUBECTL", "no-such-program")
    with pytest.raises(pytest.skip.Exception, match="no no-such-program on the PATH"):
        manifests()


def test_namespace_enforces_the_restricted_pod_security_standard():
    labels = the("Namespace", SYSTEM)["metadata"]["labels"]
    for mode in ("enforce", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


@pytest.mark.parametrize("name", [MANAGER, PETSTORE])
def test_deployment_runs_as_non_root_with_a_read_only_root_filesystem(name: str):
    deployment = the("Deployment", name)
    assert pod_of(deployment)["securityContext"]["runAsNonRoot"] is True
    assert pod_of(deployment)["securityContext"]["runAsUser"] == 65532
    assert pod_of(deployment)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container_of(deployment)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_manager_flags_match_the_ports_and_termination_grace_period_of_the_deployment():
    deployment = the("Deployment", MANAGER)
    settings = settings_of(deployment)
    assert settings.leader_elect
    assert settings.metrics_secure
    after = EVENTS_FLUSH_TIMEOUT + LIMITS.drain
    work = max(settings.graceful_shutdown_timeout, settings.shutdown_delay)
    assert work + after < pod_of(deployment)["terminationGracePeriodSeconds"]
    assert settings.shutdown_delay > 0
    ports = ports_of(deployment)
    assert settings.health_probe_bind_address == parse_bind_address(f":{ports['health']}")
    assert settings.metrics_bind_address == parse_bind_address(f":{ports['metrics']}")
    assert settings.webhook_bind_address == parse_bind_address(f":{ports['webhook-server']}")


def test_webhook_name_prefix_flag_matches_webhook_configuration_and_secret_names():
    prefix = settings_of(the("Deployment", MANAGER)).webhook_name_prefix
    configured = names_of(each for each in manifests() if "webhooks" in each)
    assert configured
    assert configured <= {f"{prefix}{MUTATING}", f"{prefix}{VALIDATING}"}
    secrets = named_in(the("Role", "operator-manager-webhook-certificate-role"), "secrets")
    assert secrets == {f"{prefix}{SECRET}"}


def test_role_bindings_bind_existing_roles_to_the_service_account_of_the_manager():
    account = the("ServiceAccount", pod_of(the("Deployment", MANAGER))["serviceAccountName"])
    subject = {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": SYSTEM}
    roles = {(each["kind"], each["metadata"]["name"]) for each in manifests()}
    bindings: list[dict[str, Any]] = [each for each in manifests() if each["kind"].endswith("RoleBinding")]
    assert bindings
    for binding in bindings:
        assert binding["subjects"] == [subject]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles


@pytest.mark.parametrize("overlay", ["default", "per-operator"])
def test_leader_election_role_names_only_the_lease_of_its_manager(overlay: str):
    deployments = [each for each in of_kind("Deployment", overlay) if MANAGER in each["metadata"]["name"]]
    leases = set()
    for deployment in deployments:
        account = pod_of(deployment)["serviceAccountName"]
        (binding,) = [
            each
            for each in of_kind("RoleBinding", overlay)
            if "leader-election" in each["metadata"]["name"] and each["subjects"][0]["name"] == account
        ]
        lease = settings_of(deployment).leader_election_id or PROGRAM.name
        assert named_in(the("Role", binding["roleRef"]["name"], overlay), "leases") == {lease}
        leases.add(lease)
    assert len(leases) == len(deployments)


def test_per_operator_overlay_has_one_deployment_per_operator_and_only_one_serves_webhooks():
    managers = {
        name.removeprefix(f"{MANAGER}-"): each
        for each in of_kind("Deployment", "per-operator")
        if (name := each["metadata"]["name"]).startswith(MANAGER)
    }
    settings = {name: settings_of(each) for name, each in managers.items()}
    assert {name: each.controllers for name, each in settings.items()} == {
        operator.name: (operator.name,) for operator in OPERATORS
    }
    serving = [name for name, each in settings.items() if each.webhook_bind_address is not None]
    labels = {name: labels_of(each) for name, each in managers.items()}
    selector = the("Service", WEBHOOK_SERVICE, "per-operator")["spec"]["selector"]
    assert [name for name in managers if selected(selector, labels[name])] == serving
    (home,) = (pod_of(managers[name])["serviceAccountName"] for name in serving)
    made = manifests("per-operator")
    bindings = [each for each in made if "subjects" in each and "webhook" in each["metadata"]["name"]]
    assert bindings
    assert {each["name"] for binding in bindings for each in binding["subjects"]} == {home}
    # No pod belongs to two Deployments.
    for name, each in managers.items():
        matching = [
            other for other in managers if selected(each["spec"]["selector"]["matchLabels"], labels[other])
        ]
        assert matching == [name]


def test_per_operator_roles_together_grant_the_rights_of_the_default_role():
    def rights(role: dict[str, Any]) -> set[tuple[str, str, str]]:
        return {
            right
            for rule in role["rules"]
            for right in product(rule["apiGroups"], rule["resources"], rule["verbs"])
        }

    whole = rights(the("ClusterRole", "operator-manager-manager-role"))
    apart = {
        each["metadata"]["name"].removeprefix("operator-manager-manager-role-"): rights(each)
        for each in of_kind("ClusterRole", "per-operator")
        if "-manager-role-" in each["metadata"]["name"]
    }
    assert set().union(*apart.values()) == whole
    assert [name for name, granted in apart.items() if ("", "secrets", "get") in granted] == ["wordpress"]
    owned = {("apps", "deployments"), ("", "services")}
    assert {(group, resource) for group, resource, verb in whole if verb == "delete"} == owned


def named_in(role: dict[str, Any], resource: str) -> set[str]:
    """Return the `resourceNames` of all rules of a role for a resource."""
    rules = [each for each in role["rules"] if resource in each["resources"]]
    return {name for each in rules for name in each.get("resourceNames", ())}


def test_webhook_injection_role_names_only_the_webhook_configurations_and_converted_crds():
    role = the("ClusterRole", "operator-manager-webhook-injection-role")
    assert all(each["resourceNames"] for each in role["rules"])
    for resource, kind in (
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    ):
        assert named_in(role, resource) == names_of(of_kind(kind))
    assert named_in(role, "customresourcedefinitions") == names_of(converted_crds())


@pytest.mark.parametrize("overlay", ["default", "cert-manager", "high-availability", "namespaced"])
def test_webhooks_call_the_webhook_service_of_the_manager_on_its_port(overlay: str):
    called = [webhook for each in manifests(overlay) for webhook in each.get("webhooks", ())]
    conversions = [each["spec"]["conversion"]["webhook"] for each in converted_crds(overlay)]
    assert called
    assert conversions
    (port,) = the("Service", WEBHOOK_SERVICE, overlay)["spec"]["ports"]
    for each in (*called, *conversions):
        service = each["clientConfig"]["service"]
        assert (service["name"], service["namespace"]) == (WEBHOOK_SERVICE, SYSTEM)
        assert service.get("port", 443) == port["port"]


def test_overlays_contain_no_tls_secret():
    secrets = [each for overlay in OVERLAYS for each in of_kind("Secret", overlay)]
    assert not [each for each in secrets if each.get("type") == "kubernetes.io/tls"]


def test_cert_manager_overlay_mounts_the_certificate_secret_at_the_webhook_cert_path():
    deployment = the("Deployment", MANAGER, "cert-manager")
    settings = settings_of(deployment)
    mounts = container_of(deployment)["volumeMounts"]
    (mount,) = [each for each in mounts if each["mountPath"] == settings.webhook_cert_path]
    (volume,) = [each for each in pod_of(deployment)["volumes"] if each["name"] == mount["name"]]
    certificate = the("Certificate", "operator-manager-serving-cert", "cert-manager")
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    assert mount["readOnly"]
    # The two keys of a kubernetes.io/tls Secret.
    assert (settings.webhook_cert_name, settings.webhook_cert_key) == ("tls.crt", "tls.key")
    made = manifests("cert-manager")
    assert f"{WEBHOOK_SERVICE}.{SYSTEM}.svc" in certificate["spec"]["dnsNames"]
    source = {"cert-manager.io/inject-ca-from": f"{SYSTEM}/{certificate['metadata']['name']}"}
    trusting = [each for each in made if selected(source, each["metadata"].get("annotations", {}))]
    called = [each for each in made if "webhooks" in each]
    assert names_of(trusting) == names_of([*called, *converted_crds("cert-manager")])


def test_webhook_network_policy_opens_only_the_webhook_port_to_ip_blocks():
    (rule,) = the("NetworkPolicy", "allow-webhook-traffic", "network-policy")["spec"]["ingress"]
    port = ports_of(the("Deployment", MANAGER))["webhook-server"]
    assert rule["ports"] == [{"port": port, "protocol": "TCP"}]
    assert all("ipBlock" in each for each in rule["from"])


def test_petstore_flags_match_the_ports_grace_period_and_data_mount_of_the_deployment():
    deployment = the("Deployment", PETSTORE)
    command, *flags = container_of(deployment)["args"]
    given = params_of(commands, command, flags)
    ports = ports_of(deployment)
    assert given["bind_address"].port == ports["grpc"]
    assert given["metrics_bind_address"].port == ports["metrics"]
    assert given["graceful_shutdown_timeout"] < pod_of(deployment)["terminationGracePeriodSeconds"]
    (mount,) = [each for each in container_of(deployment)["volumeMounts"] if each["name"] == "data"]
    assert str(given["data"].parent) == mount["mountPath"]


def selected(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


@pytest.mark.parametrize("overlay", ["default", "per-operator"])
def test_network_policies_restrict_every_pod_and_open_the_petstore_only_to_managers(overlay: str):
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind("NetworkPolicy", overlay)}
    (to_store,) = [spec for name, spec in policies.items() if name.endswith("petstore-traffic")]
    ((source,),) = [
        rule["from"] for rule in to_store["ingress"] if {"port": 6742, "protocol": "TCP"} in rule["ports"]
    ]
    assert source.keys() == {"podSelector"}
    for deployment in of_kind("Deployment", overlay):
        labels = labels_of(deployment)
        mine = [each for each in policies.values() if selected(each["podSelector"]["matchLabels"], labels)]
        assert mine
        assert all(each["policyTypes"] == ["Ingress"] for each in mine)
        is_manager = MANAGER in deployment["metadata"]["name"]
        assert selected(source["podSelector"]["matchLabels"], labels) is is_manager


def test_high_availability_overlay_has_two_manager_replicas_and_a_pod_disruption_budget():
    assert the("Deployment", MANAGER, "high-availability")["spec"]["replicas"] == 2
    (budget,) = of_kind("PodDisruptionBudget", "high-availability")
    assert selected(budget["spec"]["selector"]["matchLabels"], labels_of(the("Deployment", MANAGER)))


def test_namespaced_overlay_equals_the_default_overlay_limited_to_two_namespaces():
    made = manifests("namespaced")
    wanted = list(limited_to(("team-a", "team-b"), manifests()))
    assert sorted(made, key=identity) == sorted(wanted, key=identity)
    assert {each["metadata"]["namespace"] for each in made if each["kind"] == "Role"} > {"team-a", "team-b"}


# Cluster-scoped resources in our roles.
CLUSTER_SCOPED = {
    "customresourcedefinitions",
    "mutatingwebhookconfigurations",
    "subjectaccessreviews",
    "tokenreviews",
    "validatingwebhookconfigurations",
}


@pytest.mark.parametrize("overlay", [each for each in OVERLAYS if each not in {"namespaced", "samples"}])
def test_namespaced_manager_has_cluster_roles_only_for_cluster_scoped_resources(overlay: str):
    limited = list(limited_to(("a", "b"), manifests(overlay)))
    roles = {each["metadata"]["name"]: each for each in limited if each["kind"] == "ClusterRole"}
    for binding in (each for each in limited if each["kind"] == "ClusterRoleBinding"):
        if any("controller-manager" in each["name"] for each in binding["subjects"]):
            rules = roles[binding["roleRef"]["name"]]["rules"]
            resources = {name for rule in rules for name in rule.get("resources", ())}
            assert resources <= CLUSTER_SCOPED, binding["metadata"]["name"]


@pytest.mark.parametrize("name", ["", "-pet", "-s3bucket", "-pet-store", "-my.set"])
def test_limited_to_restricts_the_role_and_deployment_of_an_operator_with_any_name(name: str):
    role = f"x-manager-role{name}"
    made: list[Manifest] = [
        {"kind": "ClusterRole", "metadata": {"name": role}},
        {"kind": "ClusterRoleBinding", "metadata": {"name": "b"}, "roleRef": {"name": role}},
        {
            "kind": "Deployment",
            "metadata": {"name": f"x-controller-manager{name}"},
            "spec": {"template": {"spec": {"containers": [{"args": []}]}}},
        },
    ]
    limited = list(limited_to(["a"], made))
    assert [each["kind"] for each in limited] == ["Role", "RoleBinding", "Deployment"]
    assert container_of(limited[2])["args"] == ["--namespaces=a"]


def test_admission_policy_names_the_service_account_by_namespace_and_prefix_of_the_overlay(tmp_path: Path):
    tool("kubectl")
    edited = shutil.copytree(ROOT / "config", tmp_path / "config") / "default"
    file = edited / "kustomization.yaml"
    text = file.read_text().replace("namespace: operator-manager-system", "namespace: elsewhere")
    file.write_text(text.replace("namePrefix: operator-manager-", "namePrefix: mine-"))
    made = yaml_documents(build(edited))
    (policy,) = [each for each in made if each["kind"] == "ValidatingAdmissionPolicy"]
    (binding,) = [each for each in made if each["kind"] == "ValidatingAdmissionPolicyBinding"]
    (condition,) = policy["spec"]["matchConditions"]
    whose = "'system:serviceaccount:' + 'elsewhere' + ':' + 'mine-controller-manager'"
    assert condition["expression"] == f"request.userInfo.username.startsWith({whose})"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"] == "mine-manager-limits"
    assert "namespace" not in policy["metadata"].keys() | binding["metadata"].keys()


def identity(manifest: dict[str, Any]) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]
