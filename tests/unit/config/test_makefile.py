"""The targets that kubebuilder and operator-sdk projects have; one clear line where a program is missing."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.makefile import make

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


def test_help_lists_every_target_of_the_field():
    listed = {line.split()[1] for line in make("help").stdout.splitlines() if line.startswith("  make ")}
    assert set(FIELD) <= listed


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, Any]:
    """For `make`: a PATH with what every machine has, and none of the programs that targets need."""
    for name in ("sh", "awk", "sed", "echo", "touch", "mkdir", "printf", "rm"):
        found = shutil.which(name)
        if found is not None:
            (tmp_path / name).symlink_to(found)
    return {"program": shutil.which("make"), "environ": {"PATH": str(tmp_path)}}


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
def test_a_missing_program_is_named_in_one_line(target: str, missing: str, bare: dict[str, Any]):
    # The environment is taken as it is: bringing it up to date is not what is tested.
    done = make("--silent", "--assume-old=.venv/.current", target, **bare)
    assert done.returncode == 2
    first, *rest = done.stderr.splitlines()
    assert first.startswith(f"make {target}: {missing} is not on the PATH; it is needed to ")
    assert [line for line in rest if not line.startswith("make: ***")] == []


def test_a_make_around_it_is_not_felt(bare: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MAKELEVEL", "1")
    monkeypatch.setenv("MAKEFLAGS", "n -- CONTAINER_TOOL=podman")
    done = make("--silent", "docker-build", **bare)
    first, second = done.stderr.splitlines()
    assert first.startswith("make docker-build: docker is not on the PATH")
    assert second.startswith("make: *** ")


def test_the_container_tool_can_be_another(bare: dict[str, Any]):
    done = make("--silent", "docker-build", "CONTAINER_TOOL=podman", **bare)
    assert done.stderr.startswith("make docker-build: podman is not on the PATH")
    assert "podman build" in make("--dry-run", "docker-build", "CONTAINER_TOOL=podman").stdout


def test_images_are_named_by_img():
    steps = make("--dry-run", "docker-build", "docker-push", "IMG=om:v2", "PETSTORE_IMG=store:v2").stdout
    for step in ("--tag om:v2", "--tag store:v2", "push om:v2", "push store:v2"):
        assert step in steps
