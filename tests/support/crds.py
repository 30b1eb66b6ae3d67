"""Installing what `operator-manager crds` prints, as the README tells a person to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.manager_process import run_once

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane


def print_crds(plane: ControlPlane) -> str:
    """The YAML stream that the program prints."""
    done = run_once("crds", folder=plane.folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def install_crds(plane: ControlPlane) -> None:
    """Apply the CRDs and wait until the API server serves them."""
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=print_crds(plane))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
