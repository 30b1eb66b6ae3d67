"""What a person gets to read who calls the program wrongly, or calls it where it cannot work."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.kubeconfig import Credentials
from tests.support.manager_process import PROGRAM, run_once
from tests.support.ports import PortBlock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane

FAILED = 1


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    with PortBlock(1) as ports:
        yield f"127.0.0.1:{ports[0]}"


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def last_word(done: subprocess.CompletedProcess[str]) -> str:
    """The message of its last line, the only one that tells of an error."""
    assert done.returncode == FAILED, done.stderr
    assert "Traceback" not in done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line for line in lines if line["level"] == "error"] == lines[-1:]
    assert "stacktrace" not in lines[-1]
    return str(lines[-1]["msg"])


def test_a_server_that_is_not_there_is_named(tmp_path: Path, nobody: str) -> None:
    file = Credentials(server=f"https://{nobody}", token="t").write(tmp_path / "kubeconfig")
    message = last_word(run_once("run", f"--kubeconfig={file}", folder=tmp_path))
    assert f"https://{nobody}" in message
    assert str(file) in message
    assert "Connection refused" in message


def test_a_server_that_takes_connections_and_says_nothing_is_given_up(tmp_path: Path, taken: str) -> None:
    file = Credentials(server=f"https://{taken}", token="t").write(tmp_path / "kubeconfig")
    message = last_word(run_once("run", f"--kubeconfig={file}", folder=tmp_path))
    assert f"https://{taken}" in message


@pytest.mark.contract
def test_credentials_that_the_server_does_not_know_are_told_apart(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    known = control_plane.credentials
    wrong = Credentials(server=known.server, authority=known.authority, token="wrong")
    file = wrong.write(tmp_path / "kubeconfig")
    assert "does not accept the credentials" in last_word(
        run_once("run", f"--kubeconfig={file}", folder=tmp_path)
    )


def test_a_server_with_a_certificate_of_somebody_else_is_not_trusted(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    stranger = Authority("stranger")
    wrong = Credentials(server=control_plane.server, authority=stranger.pem, token="t")
    file = wrong.write(tmp_path / "kubeconfig")
    assert "certificate" in last_word(run_once("run", f"--kubeconfig={file}", folder=tmp_path))


@pytest.mark.parametrize("what", ["metrics", "health-probe", "console"])
def test_a_port_in_use_is_named_with_what_it_is_for(
    control_plane: ControlPlane, tmp_path: Path, taken: str, what: str
) -> None:
    addresses = dict.fromkeys(("metrics", "health-probe", "console", "webhook"), "0") | {what: taken}
    flags = [f"--{name}-bind-address={address}" for name, address in addresses.items()]
    done = run_once("run", f"--kubeconfig={control_plane.kubeconfig}", *flags, folder=tmp_path)
    message = last_word(done)
    where = f"{taken} (--{what}-bind-address)"
    assert message == f"cannot serve {what.removesuffix('-probe')} on {where}: Address already in use"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_server_does_not_answer_yet_ends_it_cleanly(
    run_manager: RunManager, tmp_path: Path, number: signal.Signals
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        file = Credentials(server=url, token="t").write(tmp_path / "kubeconfig")
        manager = run_manager(file)
        connection, _ = silent.accept()
        with connection:
            manager.process.signal(number)
            assert manager.wait() == 0
    assert [line["level"] for line in manager.logs()] == ["info"]


def test_on_a_terminal_the_log_is_for_people(control_plane: ControlPlane, tmp_path: Path) -> None:
    master, terminal = pty.openpty()
    command = [
        str(PROGRAM),
        "run",
        f"--kubeconfig={control_plane.kubeconfig}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--console-bind-address=0",
        "--webhook-bind-address=0",
    ]
    environ = {**os.environ, "HOME": str(tmp_path), "TERM": "xterm"}
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environ)
    os.close(terminal)
    os.set_blocking(master, False)
    seen = bytearray()

    def shows(text: bytes) -> bool:
        with contextlib.suppress(OSError):  # nothing new, or the other end has closed
            seen.extend(os.read(master, 65536))
        return text in seen

    try:
        eventually(lambda: shows(b"starting"))
        process.send_signal(signal.SIGINT)
        eventually(lambda: shows(b"asked to stop; a second signal exits at once"))
        eventually(lambda: shows(b"stopped"))
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert b"\x1b[" in seen
    assert b'{"ts"' not in seen
    assert b"Traceback" not in seen
