"""The targets that kubebuilder and operator-sdk projects have; one clear line where a program is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.dockerfile import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FIELD = (
    *(
        "help",
        "manifests",
        "generate",
        "fmt",
        "lint",
        "test",
        "demo",
        "install",
        "uninstall",
        "run",
        "deploy",
    ),
    *(
        "undeploy",
        "docker-build",
        "docker-push",
        "docker-buildx",
        "build-installer",
        "bundle",
        "bundle-build",
    ),
    *("bundle-push", "catalog-build"),
)


def make(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **({} if path is None else {"PATH": path})}
    return subprocess.run(
        ["/usr/bin/make" if path else "make", *arguments],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_lists_every_target_of_the_field():
    listed = {line.split()[1] for line in make("help").stdout.splitlines() if line.startswith("  make ")}
    assert set(FIELD) <= listed


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with what every machine has, and none of the programs that targets need."""
    for name in ("sh", "awk", "sed", "echo", "touch", "mkdir", "printf", "rm"):
        found = shutil.which(name)
        if found is not None:
            (tmp_path / name).symlink_to(found)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("target", "missing"),
    [
        *(
            ("install", "kubectl"),
            ("uninstall", "kubectl"),
            ("deploy", "kubectl"),
            ("build-installer", "kubectl"),
        ),
        *(("chart", "kubectl"), ("bundle", "kubectl")),
        *(("docker-build", "docker"), ("docker-push", "docker"), ("docker-buildx", "docker")),
        *(("bundle-push", "docker"), ("catalog-build", "opm")),
    ],
)
def test_a_missing_program_is_named_in_one_line(target: str, missing: str, bare_path: str):
    # The environment is taken as it is: bringing it up to date is not what is tested.
    done = make("--silent", "--assume-old=.venv/.current", target, path=bare_path)
    assert done.returncode == 2
    first, *rest = done.stderr.splitlines()
    assert first.startswith(f"make {target}: {missing} is not on the PATH; it is needed to ")
    assert [line for line in rest if not line.startswith("make: ***")] == []


def test_the_container_tool_can_be_another(bare_path: str):
    done = make("--silent", "docker-build", "CONTAINER_TOOL=podman", path=bare_path)
    assert done.stderr.startswith("make docker-build: podman is not on the PATH")
    assert "podman build" in make("--dry-run", "docker-build", "CONTAINER_TOOL=podman").stdout


def test_images_are_named_by_img():
    steps = make("--dry-run", "docker-build", "docker-push", "IMG=om:v2", "PETSTORE_IMG=store:v2").stdout
    for step in ("--tag om:v2", "--tag store:v2", "push om:v2", "push store:v2"):
        assert step in steps
