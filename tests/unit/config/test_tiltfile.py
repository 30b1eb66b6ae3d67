"""What `tilt up` would do."""

from __future__ import annotations

import dataclasses
import re
import shlex
from typing import Any

import pytest
import starlark

from controllers.main import PROGRAM
from manager.cli.flags import parse_flags
from petstore.cli.flags import parser as petstore_parser
from tests.support.dockerfile import ROOT, Dockerfile
from tests.support.manifests import MANAGER, PETSTORE, container_of, manifests, the

WORKLOADS = {"operator-manager": MANAGER, "petstore": PETSTORE}
TILTFILE = ROOT / "Tiltfile"
AUTO, MANUAL = "TRIGGER_MODE_AUTO", "TRIGGER_MODE_MANUAL"
Call = dict[str, Any]

# `config` is a value with functions in it, which only Starlark itself can make.
PRELUDE = "config = struct(define_bool = _define_bool, parse = _parse)\n"


class TiltfileFailed(Exception):
    """The Tiltfile called `fail`."""


@dataclasses.dataclass
class Tilt:
    """One evaluation of the Tiltfile: in this context, with these arguments after `--`."""

    context: str = "kind-kind"
    arguments: dict[str, bool] = dataclasses.field(default_factory=dict)
    builds: dict[str, Call] = dataclasses.field(default_factory=dict)
    manifests: list[str] = dataclasses.field(default_factory=list)
    workloads: dict[str, Call] = dataclasses.field(default_factory=dict)
    local: dict[str, Call] = dataclasses.field(default_factory=dict)
    asked_for_context: bool = False
    defined: set[str] = dataclasses.field(default_factory=set)

    def evaluate(self) -> Tilt:
        """Raises TiltfileFailed, and StarlarkError for what is no Starlark."""
        module = starlark.Module()
        module[AUTO], module[MANUAL] = AUTO, MANUAL
        for name in (
            *("docker_build", "kustomize", "k8s_yaml", "k8s_resource", "k8s_context", "local_resource"),
            *("sync", "run", "fall_back_on", "port_forward", "link", "probe", "exec_action"),
            *("http_get_action", "tcp_socket_action", "_define_bool", "_parse", "fail"),
        ):
            module.add_callable(name, getattr(self, f"tilt_{name.lstrip('_')}"))
        dialect = starlark.Dialect.extended()
        dialect.enable_top_level_stmt = True
        library = starlark.Globals.extended_by([starlark.LibraryExtension.StructType])
        try:
            for name, text in (("prelude", PRELUDE), ("Tiltfile", TILTFILE.read_text())):
                starlark.eval(module, starlark.parse(name, text, dialect), library)
        except starlark.StarlarkError as error:
            message = str(error)
            if "TiltfileFailed: " in message:
                raise TiltfileFailed(message.partition("TiltfileFailed: ")[2]) from None
            raise
        return self

    # What the Tiltfile calls.

    def tilt_define_bool(self, name: str, args: bool = False, usage: str = "") -> None:
        assert usage
        self.defined.add(name)

    def tilt_parse(self) -> dict[str, bool]:
        assert self.arguments.keys() <= self.defined, "Tilt refuses flags that nobody defined"
        return self.arguments

    def tilt_fail(self, message: str) -> None:
        raise TiltfileFailed(message)

    def tilt_k8s_context(self) -> str:
        self.asked_for_context = True
        return self.context

    def tilt_docker_build(
        self,
        ref: str,
        context: str,
        *,
        dockerfile: str = "Dockerfile",
        target: str = "",
        entrypoint: list[str] | None = None,
        live_update: list[Call] | None = None,
        only: list[str] | None = None,
        ignore: list[str] | None = None,
        build_args: dict[str, str] | None = None,
    ) -> None:
        assert ref not in self.builds
        self.builds[ref] = {
            "context": context,
            "dockerfile": dockerfile,
            "target": target,
            "entrypoint": entrypoint,
            "live_update": live_update or [],
        }

    def tilt_sync(self, local_path: str, remote_path: str) -> Call:
        return {"step": "sync", "from": local_path, "to": remote_path}

    def tilt_run(self, cmd: str, trigger: list[str] | None = None) -> Call:
        return {"step": "run", "cmd": cmd}

    def tilt_fall_back_on(self, files: list[str]) -> Call:
        return {"step": "fall_back_on", "files": files}

    def tilt_kustomize(self, pathToDir: str, flags: list[str] | None = None) -> str:  # noqa: N803 - as Tilt has it
        return pathToDir

    def tilt_k8s_yaml(self, yaml: str, allow_duplicates: bool = False) -> None:
        self.manifests.append(yaml)

    def tilt_k8s_resource(
        self,
        workload: str = "",
        new_name: str = "",
        port_forwards: list[Call] | None = None,
        trigger_mode: str = AUTO,
        resource_deps: list[str] | None = None,
        objects: list[str] | None = None,
        links: list[Call] | None = None,
        labels: list[str] | None = None,
    ) -> None:
        self.workloads[workload] = {
            "name": new_name or workload,
            "port_forwards": port_forwards or [],
            "deps": resource_deps or [],
        }

    def tilt_local_resource(
        self,
        name: str,
        cmd: str = "",
        deps: list[str] | None = None,
        trigger_mode: str = AUTO,
        resource_deps: list[str] | None = None,
        ignore: list[str] | None = None,
        auto_init: bool = True,
        serve_cmd: str = "",
        allow_parallel: bool = False,
        links: list[Call] | None = None,
        labels: list[str] | None = None,
        env: dict[str, str] | None = None,
        serve_env: dict[str, str] | None = None,
        readiness_probe: Call | None = None,
    ) -> None:
        assert name not in self.local
        assert cmd or serve_cmd, "Tilt refuses a resource that does nothing"
        self.local[name] = {
            "cmd": cmd,
            "serve_cmd": serve_cmd,
            "serve_env": serve_env or {},
            "files": deps or [],
            "deps": resource_deps or [],
            "on_demand": trigger_mode == MANUAL and not auto_init,
            "probe": readiness_probe,
        }

    def tilt_port_forward(
        self,
        local_port: int,
        container_port: int | None = None,
        name: str | None = None,
        link_path: str | None = None,
        host: str | None = None,
    ) -> Call:
        return {"local": local_port, "container": container_port or local_port, "name": name}

    def tilt_link(self, url: str, name: str = "") -> Call:
        return {"url": url, "name": name}

    def tilt_probe(
        self,
        initial_delay_secs: int = 0,
        timeout_secs: int = 1,
        period_secs: int = 10,
        exec: Call | None = None,  # noqa: A002 - as Tilt has it
        http_get: Call | None = None,
        tcp_socket: Call | None = None,
    ) -> Call:
        (action,) = [each for each in (exec, http_get, tcp_socket) if each is not None]
        return action

    def tilt_exec_action(self, command: list[str]) -> Call:
        return {"command": command}

    def tilt_http_get_action(
        self, port: int, host: str = "localhost", scheme: str = "http", path: str = ""
    ) -> Call:
        return {"port": port, "path": path}

    def tilt_tcp_socket_action(self, port: int, host: str = "localhost") -> Call:
        return {"port": port}


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
def test_other_clusters_are_refused_by_name(context: str):
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


def test_a_changed_source_replaces_what_the_image_has_and_the_program_starts_again(tilt: Tilt):
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


def test_what_is_forwarded_is_listened_on(tilt: Tilt):
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


def test_without_a_cluster_none_is_asked_for(clusterless: Tilt):
    assert not clusterless.asked_for_context
    assert not clusterless.builds
    assert not clusterless.manifests
    programs = {name for name, each in clusterless.local.items() if each["serve_cmd"]}
    assert programs == {"devcluster", "petstore", "manager"}


def test_without_a_cluster_everything_talks_to_devcluster(clusterless: Tilt):
    for name in ("definitions", "samples", "remove-samples"):
        assert "--kubeconfig=.local/tilt/kubeconfig" in clusterless.local[name]["cmd"]
    for name in ("devcluster", "manager"):
        assert "--kubeconfig=.local/tilt/kubeconfig" in clusterless.local[name]["serve_cmd"]


def test_without_a_cluster_programs_understand_their_flags(clusterless: Tilt):
    flags = parse_flags(shlex.split(clusterless.local["manager"]["serve_cmd"])[3:], (), PROGRAM)
    assert flags["health-probe-bind-address"] == f"localhost:{clusterless.local['manager']['probe']['port']}"
    words = shlex.split(clusterless.local["petstore"]["serve_cmd"])
    options = petstore_parser().parse_args(words[words.index("serve") :])
    assert clusterless.local["manager"]["serve_env"] == {"PETSTORE_ADDRESS": str(options.bind_address)}


def test_without_a_cluster_webhooks_are_served_where_devcluster_asks(clusterless: Tilt):
    flags = parse_flags(shlex.split(clusterless.local["manager"]["serve_cmd"])[3:], (), PROGRAM)
    url = flags["webhook-url"]
    assert url == f"https://{flags['webhook-bind-address']}"
    # What is applied again while it runs must not lead to a Service: the API server takes only one of both.
    assert f"operator-manager crds --webhook-url={url} |" in clusterless.local["definitions"]["cmd"]
    assert flags["webhook-local-path"].startswith(".local/")


def test_whatever_is_waited_for_exists(tilt: Tilt, clusterless: Tilt):
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
