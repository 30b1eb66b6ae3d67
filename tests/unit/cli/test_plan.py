"""Wrong arguments of `plan`; tests/integration/test_plan.py tests its work."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command

OURS = "{apiVersion: cache.example.com/v1, kind: Memcached, metadata: {name: web}}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "FILE: not valid YAML in line"),
        ("&a [*a, *a]", "FILE: not valid YAML in line 1, column 5: it is part of itself"),
        ("text", "FILE: an object with apiVersion, kind and metadata is expected"),
        ("{metadata: {name: a}}", "FILE: an object with apiVersion, kind and metadata.name is expected"),
        ("{items: [{metadata: 1}]}", "FILE: an object with apiVersion, kind and metadata is expected"),
        (OURS.replace("web", "[a]"), "FILE: an object with apiVersion, kind and metadata.name is expected"),
        (OURS.replace("Memcached", "Pet"), "the files have no object of our kinds, which are Memcached"),
        ("", "the files have no object of our kinds, which are Memcached"),
    ],
)
def test_plan_refuses_a_file_without_valid_objects_in_one_line(
    command: Command, tmp_path: Path, text: str, told: str
):
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    assert command("plan", "-f", str(path)).refusal().startswith(f"plan: {told.replace('FILE', str(path))}")


def test_plan_refuses_a_file_or_stdin_longer_than_16_mib(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "objects.yaml"
    path.write_bytes(OURS.encode() + b"\n" * (16 << 20))
    assert command("plan", "-f", str(path)).refusal() == f"plan: {path}: it is longer than 16 MiB"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert command("plan", "-f", "-").refusal() == "plan: -: it is longer than 16 MiB"


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ((), "either -f FILE or --all is expected"),
        (("--all", "-f", "objects.yaml"), "either -f FILE or --all is expected"),
        (("--all", "-n", "team"), "-n/--namespace is for objects of -f FILE; --namespaces limits --all"),
        (("-f", "no-such\x1b[2J"), r"no-such\x1b[2J: No such file or directory"),
        (("-f", "/dev/zero"), "/dev/zero: it is not a regular file"),
        (("--all", "--timeout=soon"), "Invalid value for '--timeout': a duration"),
        (("--all", "--controllers=dog"), "--controllers: unknown controller 'dog'"),
        (
            ("--all", "--namespaces=Not_One"),
            "invalid value 'Not_One' for --namespaces: a namespace is expected",
        ),
        (("--al",), "No such option '--al'. (Did you mean one of: '--all', '--help'?)"),
    ],
)
def test_plan_reports_a_wrong_argument_in_one_line(command: Command, argv: tuple[str, ...], told: str):
    assert command("plan", *argv).refusal().startswith(f"plan: {told}")


def test_plan_fails_when_the_kubeconfig_cannot_be_read(command: Command, tmp_path: Path):
    assert command("plan", "--all", f"--kubeconfig={tmp_path / 'none'}").refusal(1).startswith("plan: ")
