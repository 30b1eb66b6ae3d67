"""`make run`: webhooks where the API server can call this machine, and never where it cannot."""

from __future__ import annotations

import contextlib
import fcntl
import http.server
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.support.api_access import ApiFailure
from tests.support.daemon import Daemon
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.makefile import ROOT
from tests.support.manager_process import ManagerProcess
from tests.support.pets import pet
from tests.support.ports import PortBlock
from tests.support.webhook_manager import webhook_manager

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import StartControlPlane
    from tests.support.control_plane import ControlPlane

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pets.petstore.example.com"
PETS = "/apis/petstore.example.com/v1beta1/namespaces/default/pets"
UNBORN = pet("unborn", birthday="2999-01-01")


@pytest.fixture(autouse=True)
def alone_on_this_machine() -> Iterator[None]:
    """One at a time: all try the usual port first, and whoever found it free is to find it free again."""
    with (Path(tempfile.gettempdir()) / "operator-manager-make-run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def plane(own_control_plane: StartControlPlane) -> ControlPlane:
    return own_control_plane(parts=BARE, crds=True)


def flags(kubeconfig: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """What `make run` would add."""
    return subprocess.run(
        [sys.executable, "-m", "controllers.main", "webhook-flags", f"--kubeconfig={kubeconfig}", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def kubeconfig_for(server: str, folder: Path) -> Path:
    path = folder / "kubeconfig"
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.contract
def test_a_pet_is_refused_by_the_manager_that_make_run_starts(plane: ControlPlane, tmp_path: Path) -> None:
    with ExitStack() as stack:
        ports = PortBlock(1)
        stack.callback(ports.close)
        arguments = (
            f"--kubeconfig={plane.kubeconfig}",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{ports[0]}",
            f"--webhook-local-path={tmp_path / 'webhook'}",
        )
        make = [
            shutil.which("make") or "make",
            "--silent",
            "--assume-old=.venv/.current",
            "-C",
            ROOT,
            "run",
            f"ARGS={' '.join(arguments)}",
        ]
        running = Daemon("make-run", make, log=tmp_path / "log")
        running.start()
        stack.callback(running.kill)

        def refused() -> bool:
            running.check()
            try:
                plane.api.request("POST", PETS, query={"dryRun": "All"}, body=UNBORN)
            except ApiFailure as failure:
                return "must not be in the future" in str(failure)
            return False

        before = plane.api.get(DEFINITION)["spec"]["conversion"]
        eventually(refused)
        assert registered(plane) == ["operator-manager-validating-webhook-configuration"]
        assert "url" in plane.api.get(DEFINITION)["spec"]["conversion"]["webhook"]["clientConfig"]

        # What it has registered goes with it.
        running.signal(signal.SIGINT)
        running.wait(20)
        assert registered(plane) == []
        assert plane.api.get(DEFINITION)["spec"]["conversion"] == before


def registered(plane: ControlPlane) -> list[str]:
    """The validating configurations that there are."""
    return [each["metadata"]["name"] for each in plane.api.get(CONFIGURATIONS)["items"]]


@pytest.mark.contract
def test_what_a_killed_manager_has_registered_is_taken_away_by_the_next_start(
    plane: ControlPlane, tmp_path: Path
) -> None:
    pets = ("--controllers=mysrv", "--leader-elect=false")
    before = plane.api.get(DEFINITION)["spec"]["conversion"]
    with webhook_manager(plane, tmp_path / "first", *pets) as manager:
        manager.kill()
    assert registered(plane) == ["operator-manager-validating-webhook-configuration"]
    with ManagerProcess(plane.kubeconfig, *pets, folder=tmp_path / "second") as manager:
        manager.wait_ready()
        eventually(lambda: taken_away(plane, before))
    told = manager.logs(msg="took away what a manager that was killed had left: nobody answers there")
    assert {each["object"] for each in told} == {
        "operator-manager-mutating-webhook-configuration",
        "operator-manager-validating-webhook-configuration",
        "pets.petstore.example.com",
    }


def taken_away(plane: ControlPlane, before: object) -> None:
    assert registered(plane) == []
    assert plane.api.get(DEFINITION)["spec"]["conversion"] == before


@pytest.mark.contract
def test_without_a_manager_make_uninstall_says_what_it_waits_for_and_how_to_go_on(
    plane: ControlPlane, tmp_path: Path
) -> None:
    cleaned = {"metadata": {"name": "thor", "finalizers": ["example.com/finalizer"]}}
    plane.api.request("POST", PETS, body={**pet("thor"), **cleaned})
    make = [shutil.which("make") or "make", "--silent", "--assume-old=.venv/.current", "-C", str(ROOT)]
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    running = Daemon("make-uninstall", [*make, "uninstall"], log=tmp_path / "log", environ=environ)
    with ExitStack() as stack:
        running.start()
        stack.callback(running.kill)

        def told() -> list[str]:
            running.check()
            lines = running.output().splitlines()
            assert "default/pets.petstore.example.com/thor" in "".join(lines)
            return [line.strip() for line in lines if "kubectl patch" in line]

        # What it says is done.
        (advice,) = eventually(told)
        plane.kubectl(*shlex.split(advice)[1:])
        assert running.wait(30) == 0
    # Nothing is left, which is no failure.
    subprocess.run([*make, "uninstall"], env=environ, check=True, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["--webhook-url=https://here.test:9443"], {}),
        (["--webhook-bind-address=0"], {}),
        (["--webhook-bind-address=127.0.0.1:9443"], {}),
        ([], {"ENABLE_WEBHOOKS": "false"}),
        (["--no-such-flag"], {}),
        (["--controllers=nobody", "--config=/no/such/file"], {}),
    ],
    ids=["url", "off-by-flag", "address", "off-by-variable", "wrong-flag", "no-file"],
)
def test_what_somebody_has_decided_is_left_alone(
    tmp_path: Path, arguments: list[str], environ: dict[str, str]
) -> None:
    # Nobody listens there: nobody is asked.
    done = flags(kubeconfig_for("https://127.0.0.1:1", tmp_path), *arguments, **environ)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_server_elsewhere_is_not_told_of_this_machine(tmp_path: Path) -> None:
    done = flags(kubeconfig_for("https://cluster.example.test:6443", tmp_path))
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "make run: no webhooks: the API server https://cluster.example.test:6443 is not on"
    )


@pytest.fixture
def in_a_container() -> Iterator[str]:
    """An API server on a port of this machine that takes everything, and calls nobody."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "Content-Length" in self.headers:
                self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"gitVersion": "v1.36.3"}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        do_POST = do_DELETE = do_GET  # noqa: N815 - the library calls them so

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_server_that_cannot_call_back_is_told_nothing(in_a_container: str, tmp_path: Path) -> None:
    done = flags(kubeconfig_for(in_a_container, tmp_path))
    assert done.stdout == ""
    assert "it may run in a container" in done.stderr
    assert "--webhook-bind-address=:9443" in done.stderr
