"""Actions of `tilt up`."""

from __future__ import annotations

import re
import shlex

import pytest

from petstore.cli.commands import commands
from tests.support import ROOT
from tests.support.dockerfile import Dockerfile
from tests.support.manifests import MANAGER, PETSTORE, container_of, manifests, the
from tests.support.settings import parse_flags
from tests.support.tilt import Tilt, TiltfileFailed

WORKLOADS = {"operator-manager": MANAGER, "petstore": PETSTORE}


@pytest.fixture(scope="module")
def tilt() -> Tilt:
    return Tilt().evaluate()


@pytest.fixture(scope="module")
def clusterless() -> Tilt:
    return Tilt(context="production", arguments={"devcluster": True}).evaluate()


@pytest.mark.parametrize(
    "context", ["kind-kind", "k3d-dev", "minikube", "docker-desktop", "rancher-desktop", "colima", "orbstack"]
)
def test_clusters_of_this_machine_are_used(context: str):
    assert Tilt(context=context).evaluate().manifests == ["config/development"]


@pytest.mark.parametrize("context", ["production", "", "not-kind-", "minikube-of-somebody-else"])
def test_tiltfile_refuses_other_clusters_by_name(context: str):
    tilt = Tilt(context=context)
    with pytest.raises(TiltfileFailed, match=re.escape(f'current context "{context}" is no cluster of this')):
        tilt.evaluate()
    assert not tilt.manifests
    assert not tilt.builds


def test_every_image_of_the_manifests_is_built(tilt: Tilt):
    used = {
        container_of(each)["image"].partition(":")[0]
        for each in manifests("development")
        if each["kind"] == "Deployment"
    }
    assert tilt.builds.keys() == used == WORKLOADS.keys()


def test_images_are_made_by_a_stage_of_the_dockerfile(tilt: Tilt):
    for build in tilt.builds.values():
        assert build["context"] == "."
        assert build["dockerfile"] == "Dockerfile"
        assert build["target"] == "dev"
    assert "dev" in Dockerfile.read().stages


def test_live_update_syncs_copied_sources_and_restarts_the_program(tilt: Tilt):
    copied = dict[str, str]()
    for copy in Dockerfile.read().stages["dev"].of("COPY"):
        source, target = copy.arguments
        copied[source] = target
    for build in tilt.builds.values():
        *before, last = build["live_update"]
        assert [step["step"] for step in before] == ["fall_back_on"] + ["sync"] * (len(before) - 1)
        synced = {step["from"]: step["to"] for step in before[1:]}
        assert synced.items() <= copied.items()
        python, restarting, marker, *program = build["entrypoint"]
        assert python == "python"
        assert restarting == copied["scripts/restarting"]
        assert last == {"step": "run", "cmd": f"touch {marker}"}
        assert len(program) == 1


def test_the_containers_can_take_changed_sources(tilt: Tilt):
    for name in WORKLOADS.values():
        container = container_of(the("Deployment", name, "development"))
        assert container["securityContext"]["readOnlyRootFilesystem"] is False
        # Nothing else is different: what works in development works in production.
        container["securityContext"]["readOnlyRootFilesystem"] = True
        container["args"] = [flag for flag in container["args"] if flag != "--metrics-secure=false"]
        assert container == container_of(the("Deployment", name))


def test_port_forwards_match_the_ports_of_the_containers(tilt: Tilt):
    assert tilt.workloads.keys() == set(WORKLOADS.values())
    for name, workload in tilt.workloads.items():
        ports = container_of(the("Deployment", name))["ports"]
        # Webhooks are for API servers alone.
        listening = {port["containerPort"] for port in ports if port["name"] != "webhook-server"}
        assert {forward["container"] for forward in workload["port_forwards"]} == listening


@pytest.mark.parametrize("button", ["test", "lint", "samples", "remove-samples"])
def test_buttons_wait_to_be_pressed(tilt: Tilt, clusterless: Tilt, button: str):
    for each in (tilt, clusterless):
        assert each.local[button]["on_demand"]


def test_tiltfile_runs_three_local_programs_without_a_cluster(clusterless: Tilt):
    assert not clusterless.asked_for_context
    assert not clusterless.builds
    assert not clusterless.manifests
    programs = {name for name, each in clusterless.local.items() if each["serve_cmd"]}
    assert programs == {"devcluster", "petstore", "manager"}


def test_local_resources_use_the_kubeconfig_of_devcluster_without_a_cluster(clusterless: Tilt):
    for name in ("definitions", "samples", "remove-samples"):
        assert "--kubeconfig=.local/tilt/kubeconfig" in clusterless.local[name]["cmd"]
    for name in ("devcluster", "manager"):
        assert "--kubeconfig=.local/tilt/kubeconfig" in clusterless.local[name]["serve_cmd"]


def test_local_programs_understand_their_flags_without_a_cluster(clusterless: Tilt):
    flags = parse_flags(shlex.split(clusterless.local["manager"]["serve_cmd"])[3:])
    assert flags["health-probe-bind-address"] == f"localhost:{clusterless.local['manager']['probe']['port']}"
    words = shlex.split(clusterless.local["petstore"]["serve_cmd"])
    given = commands.commands["serve"].make_context("serve", words[words.index("serve") + 1 :]).params
    assert clusterless.local["manager"]["serve_env"] == {"PETSTORE_ADDRESS": str(given["bind_address"])}


def test_webhook_certificates_are_in_the_tilt_folder_without_a_cluster(clusterless: Tilt):
    flags = parse_flags(shlex.split(clusterless.local["manager"]["serve_cmd"])[3:])
    assert flags["webhook-local-path"].startswith(".local/tilt/")


def test_dependencies_of_every_resource_exist(tilt: Tilt, clusterless: Tilt):
    for each in (tilt, clusterless):
        names = set(each.local) | {workload["name"] for workload in each.workloads.values()}
        for resource in (*each.local.values(), *each.workloads.values()):
            assert set(resource["deps"]) <= names


def test_targets_of_make_and_watched_folders_exist(tilt: Tilt, clusterless: Tilt):
    makefile = (ROOT / "Makefile").read_text()
    for each in (tilt, clusterless):
        for resource in each.local.values():
            for target in re.findall(r"\bmake ([\w-]+)", resource["cmd"]):
                assert f"\n{target}:" in makefile
            assert all((ROOT / name).is_dir() for name in resource["files"])
