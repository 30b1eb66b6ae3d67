"""Installing what `operator-manager crds` prints, as the README tells a person to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from tests.support.eventually import eventually
from tests.support.manager_process import run_once

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def print_crds(plane: ControlPlane) -> str:
    """The YAML stream that the program prints."""
    done = run_once("crds", folder=plane.folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def install_crds(plane: ControlPlane) -> None:
    """Apply the CRDs and wait until the API server serves them."""
    plane.api.apply(yaml.safe_load_all(print_crds(plane)))
    wait_served(plane)


def wait_served(plane: ControlPlane) -> None:
    """Wait until the objects of every CRD that there is on the server are served."""

    def served() -> None:
        # A definition is established a moment before its objects are served, so these are asked for.
        for definition in plane.api.get(DEFINITIONS)["items"]:
            spec = definition["spec"]
            for version in spec["versions"]:
                if version["served"]:
                    path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
                    plane.api.get(path, limit="1")

    eventually(served, every=0.05)
