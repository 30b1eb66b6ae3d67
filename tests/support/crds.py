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
    wait_established(plane)


def wait_established(plane: ControlPlane) -> None:
    """Wait until every CRD that there is on the server is established."""

    def established() -> bool:
        conditions = [
            {each["type"]: each["status"] for each in definition.get("status", {}).get("conditions", [])}
            for definition in plane.api.get(DEFINITIONS)["items"]
        ]
        return all(each.get("Established") == "True" for each in conditions)

    eventually(established, every=0.05)
