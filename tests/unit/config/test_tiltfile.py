"""Actions of the Tiltfile in `tilt up`."""

from __future__ import annotations

import shlex
import signal
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest

from petstore.cli.commands import commands
from tests.support.dockerfile import Dockerfile
from tests.support.manifests import MANAGER, PETSTORE, container_of, the
from tests.support.scripts import script
from tests.support.settings import params_of, parse_flags
from tests.support.tilt import Tilt, TiltfileFailed


def test_tiltfile_builds_the_manifest_images_for_a_local_cluster_and_fails_for_a_remote_cluster():
    tilt = Tilt().evaluate()
    containers = [container_of(the("Deployment", name, "development")) for name in (MANAGER, PETSTORE)]
    assert tilt.called("docker_build").keys() == {each["image"].partition(":")[0] for each in containers}
    assert tilt.called("kustomize").keys() == {"config/development"}
    assert tilt.called("k8s_resource").keys() == {MANAGER, PETSTORE}
    copied = {copy.arguments[0] for copy in Dockerfile.read().stages["dev"].of("COPY")}
    assert tilt.called("sync").keys() <= copied
    for build in tilt.called("docker_build").values():
        assert build["target"] == "dev"
    with pytest.raises(TiltfileFailed, match=r"current context .production. is no cluster of this machine"):
        Tilt(context="production").evaluate()


def test_tiltfile_runs_devcluster_petstore_and_manager_locally_when_devcluster_is_requested():
    tilt = Tilt(context="production", arguments={"devcluster": True}).evaluate()
    assert not tilt.called("docker_build")
    local = tilt.called("local_resource")
    programs = {name: shlex.split(each["serve_cmd"]) for name, each in local.items() if "serve_cmd" in each}
    assert programs.keys() == {"devcluster", "petstore", "manager"}
    flags = parse_flags(programs["manager"][3:])
    assert flags["health-probe-bind-address"] == "localhost:8081"
    words = programs["petstore"]
    given = params_of(commands, "serve", words[words.index("serve") + 1 :])
    assert local["manager"]["serve_env"] == {"PETSTORE_ADDRESS": str(given["bind_address"])}


def test_restarting_script_ends_with_the_exit_code_when_sigterm_comes_while_a_touched_program_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    marker = tmp_path / "touched"
    supervisor = script("restarting").Restarting(marker, ["program"])

    program = Mock(**{"poll.return_value": None})

    def wait(timeout: float | None = None) -> int:
        if not program.terminate.called:
            marker.touch()
            raise subprocess.TimeoutExpired("program", timeout or 0)
        supervisor._stop(signal.SIGTERM, None)
        return -15

    program.wait = wait
    monkeypatch.setattr(subprocess, "Popen", lambda command: program)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert supervisor.run() == -15
