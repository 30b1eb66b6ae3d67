"""What the folders of config/ make, and that it fits the program."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from manager.cli.flags import parse_flags
from manager.http.address import parse_address
from manager.settings import load_settings
from manager.version import VERSION
from petstore.cli.flags import parser as petstore_parser
from release.kustomize import ROOT, build
from release.namespaces import limited_to
from tests.support.manifests import (
    MANAGER,
    OVERLAYS,
    PETSTORE,
    SYSTEM,
    container_of,
    flags_of,
    manifests,
    pod_of,
    the,
)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_folder_builds(overlay: str):
    assert manifests(overlay)


def test_everything_in_a_namespace_is_in_the_managers_own():
    places = {each["metadata"].get("namespace") for each in manifests()} - {None}
    assert places == {SYSTEM}


def test_every_name_but_those_of_definitions_begins_with_the_prefix():
    unprefixed = [
        each["metadata"]["name"] for each in manifests() if each["kind"] != "CustomResourceDefinition"
    ]
    assert all(name.startswith("operator-manager-") for name in unprefixed)


def test_the_namespace_asks_for_the_restricted_level():
    labels = the("Namespace", SYSTEM)["metadata"]["labels"]
    for mode in ("enforce", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


@pytest.mark.parametrize("name", [MANAGER, PETSTORE])
def test_pods_run_as_nobody_on_a_file_system_they_cannot_write(name: str):
    deployment = the("Deployment", name)
    assert pod_of(deployment)["securityContext"]["runAsNonRoot"] is True
    assert pod_of(deployment)["securityContext"]["runAsUser"] == 65532
    assert pod_of(deployment)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container_of(deployment)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("name", [MANAGER, PETSTORE])
def test_images_are_those_of_this_version_and_name_no_host(name: str):
    program = name.removeprefix("operator-manager-").replace("controller-manager", "operator-manager")
    assert container_of(the("Deployment", name))["image"] == f"{program}:{VERSION}"


def test_the_manager_understands_its_flags():
    deployment = the("Deployment", MANAGER)
    settings = load_settings(parse_flags(flags_of(deployment)))
    assert settings.leader_elect
    assert settings.metrics_secure
    assert settings.graceful_shutdown_timeout < pod_of(deployment)["terminationGracePeriodSeconds"]

    ports = {each["name"]: each["containerPort"] for each in container_of(deployment)["ports"]}
    assert settings.health_probe_bind_address == parse_address(f":{ports['health']}")
    assert settings.metrics_bind_address == parse_address(f":{ports['metrics']}")


def test_the_store_understands_its_flags():
    deployment = the("Deployment", PETSTORE)
    options = petstore_parser().parse_args(container_of(deployment)["args"])
    ports = {each["name"]: each["containerPort"] for each in container_of(deployment)["ports"]}
    assert options.bind_address.port == ports["grpc"]
    assert options.metrics_bind_address.port == ports["metrics"]
    assert options.graceful_shutdown_timeout < pod_of(deployment)["terminationGracePeriodSeconds"]
    (mount,) = [each for each in container_of(deployment)["volumeMounts"] if each["name"] == "data"]
    assert str(options.data.parent) == mount["mountPath"]


def test_the_manager_looks_for_the_store_where_its_service_is():
    (variable,) = [
        each for each in container_of(the("Deployment", MANAGER))["env"] if each["name"] == "PETSTORE_ADDRESS"
    ]
    service = the("Service", PETSTORE)
    host, _, port = variable["value"].partition(":")
    assert host == service["metadata"]["name"]
    assert int(port) == next(each["port"] for each in service["spec"]["ports"] if each["name"] == "grpc")


def selected(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def test_services_select_the_pods_and_the_ports_they_are_for():
    for service, deployment in (
        ("operator-manager-controller-manager-metrics-service", MANAGER),
        (PETSTORE, PETSTORE),
    ):
        spec = the("Service", service)["spec"]
        template = the("Deployment", deployment)["spec"]["template"]
        assert selected(spec["selector"], template["metadata"]["labels"])
        named = {each["name"] for each in container_of(the("Deployment", deployment))["ports"]}
        assert {each["targetPort"] for each in spec["ports"]} <= named


def test_monitors_select_the_services_and_name_their_ports_and_jobs():
    services = [each for each in manifests() if each["kind"] == "Service"]
    jobs = set()
    for monitor in (each for each in manifests("prometheus") if each["kind"] == "ServiceMonitor"):
        (service,) = [
            each
            for each in services
            if selected(monitor["spec"]["selector"]["matchLabels"], each["metadata"]["labels"])
        ]
        for endpoint in monitor["spec"]["endpoints"]:
            assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        jobs.add(service["metadata"]["labels"][monitor["spec"]["jobLabel"]])
    assert jobs == {"operator-manager", "petstore"}


def test_network_policies_open_the_ports_that_pods_listen_on():
    listening = {
        deployment: {each["containerPort"] for each in container_of(the("Deployment", deployment))["ports"]}
        for deployment in (MANAGER, PETSTORE)
    }
    for policy in manifests("network-policy"):
        (matched,) = [
            deployment
            for deployment in (MANAGER, PETSTORE)
            if selected(
                policy["spec"]["podSelector"]["matchLabels"],
                the("Deployment", deployment)["spec"]["template"]["metadata"]["labels"],
            )
        ]
        opened = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert opened <= listening[matched]


def test_two_managers_have_a_disruption_budget():
    assert the("Deployment", MANAGER, "high-availability")["spec"]["replicas"] == 2
    (budget,) = [each for each in manifests("high-availability") if each["kind"] == "PodDisruptionBudget"]
    labels = the("Deployment", MANAGER)["spec"]["template"]["metadata"]["labels"]
    assert selected(budget["spec"]["selector"]["matchLabels"], labels)
    assert budget["metadata"]["namespace"] == SYSTEM


def test_the_overlay_for_some_namespaces_makes_what_make_deploy_makes_for_them():
    made = manifests("namespaced")
    wanted = list(limited_to(("team-a", "team-b"), manifests()))
    assert sorted(made, key=identity) == sorted(wanted, key=identity)
    assert {each["metadata"]["namespace"] for each in made if each["kind"] == "Role"} > {"team-a", "team-b"}


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """A copy of config/, to do what its comments say."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on the PATH")
    return Path(shutil.copytree(ROOT / "config", tmp_path / "config"))


def test_what_is_commented_out_in_the_default_can_be_had(edited: Path):
    file = edited / "default" / "kustomization.yaml"
    text, changes = re.subn(r"^#- ", "- ", file.read_text(), flags=re.MULTILINE)
    file.write_text(text)
    made = list(yaml.safe_load_all(build(edited / "default")))
    # Whatever they are for, they are where the rest is and are called like it.
    added = [each for each in made if each not in manifests()]
    assert changes == 2
    assert {each["kind"] for each in added} == {"ServiceMonitor", "PrometheusRule", "NetworkPolicy"}
    assert {each["metadata"]["namespace"] for each in added} == {SYSTEM}
    assert all(each["metadata"]["name"].startswith("operator-manager-") for each in added)
    assert len(made) == len(added) + len(manifests())


def test_the_default_without_the_store_has_nothing_of_it(edited: Path):
    file = edited / "default" / "kustomization.yaml"
    overlay = yaml.safe_load(file.read_text())
    overlay["resources"].remove("../petstore")
    overlay["patches"] = [each for each in overlay["patches"] if "petstore" not in each["path"]]
    del overlay["replacements"]
    file.write_text(yaml.safe_dump(overlay))
    made = list(yaml.safe_load_all(build(edited / "default")))
    assert PETSTORE not in {each["metadata"]["name"] for each in made}
    (deployment,) = [each for each in made if each["kind"] == "Deployment"]
    assert "env" not in container_of(deployment)


def identity(manifest: dict[str, Any]) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def test_replicas_of_the_manager_spread_over_nodes():
    deployment = the("Deployment", MANAGER)
    (constraint,) = pod_of(deployment)["topologySpreadConstraints"]
    assert constraint["labelSelector"] == deployment["spec"]["selector"]


def test_roles_are_bound_to_the_account_the_manager_runs_under():
    account = pod_of(the("Deployment", MANAGER))["serviceAccountName"]
    assert the("ServiceAccount", account)
    bindings: list[dict[str, Any]] = [each for each in manifests() if each["kind"].endswith("RoleBinding")]
    assert bindings
    roles = {(each["kind"], each["metadata"]["name"]) for each in manifests()}
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": SYSTEM}]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
