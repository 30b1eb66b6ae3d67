"""Recorder of the calls that a Tiltfile makes to Tilt."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

AUTO, MANUAL = "TRIGGER_MODE_AUTO", "TRIGGER_MODE_MANUAL"
Call = dict[str, Any]

# `config` is a value with functions in it, which only Starlark itself can make.
PRELUDE = "config = struct(define_bool = _define_bool, parse = _parse)\n"


class TiltfileFailed(Exception):
    """The Tiltfile called `fail`."""


@dataclasses.dataclass
class Tilt:
    """One evaluation of a Tiltfile: in this context, with these arguments after `--`."""

    path: Path = ROOT / "Tiltfile"
    context: str = "kind-kind"
    arguments: dict[str, bool] = dataclasses.field(default_factory=dict)
    builds: dict[str, Call] = dataclasses.field(default_factory=dict)
    manifests: list[str] = dataclasses.field(default_factory=list)
    workloads: dict[str, Call] = dataclasses.field(default_factory=dict)
    local: dict[str, Call] = dataclasses.field(default_factory=dict)
    asked_for_context: bool = False
    defined: set[str] = dataclasses.field(default_factory=set)

    def evaluate(self) -> Tilt:
        """Run the Tiltfile; raise TiltfileFailed for its failures, and StarlarkError for invalid Starlark."""
        starlark = pytest.importorskip("starlark", reason="there is no wheel of Starlark for this machine")
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
            for name, text in (("prelude", PRELUDE), ("Tiltfile", self.path.read_text())):
                starlark.eval(module, starlark.parse(name, text, dialect), library)
        except starlark.StarlarkError as error:
            message = str(error)
            if "TiltfileFailed: " in message:
                raise TiltfileFailed(message.partition("TiltfileFailed: ")[2]) from None
            raise
        return self

    # Functions that the Tiltfile calls.

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
