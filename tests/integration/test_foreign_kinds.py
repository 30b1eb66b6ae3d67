"""Objects of third-party kinds that this project generates, validated by the CRDs of the third parties."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

from release.cli import main
from tests.conftest import StartControlPlane
from tests.support.api_objects import create_namespace
from tests.support.control_plane import ControlPlane
from tests.support.crds import wait_served
from tests.support.envtest import BARE
from tests.support.manifests import manifests

NAMESPACE = "foreign"
GROUPS = {"cert-manager.io", "monitoring.coreos.com"}
CSV = "bundle/manifests/operator-manager.clusterserviceversion.yaml"
PROMETHEUS = "example/prometheus-operator-crd/monitoring.coreos.com"
DEFINITIONS = {
    "github.com/prometheus-operator/prometheus-operator@v0.82.0": [
        *(f"{PROMETHEUS}_servicemonitors.yaml", f"{PROMETHEUS}_prometheusrules.yaml"),
    ],
    "github.com/cert-manager/cert-manager@v1.21.2": [
        *("deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml"),
    ],
    "github.com/operator-framework/api@v0.30.0": ["crds/operators.coreos.com_clusterserviceversions.yaml"],
}
"""Files with CRDs, by the Go module that contains them."""


@pytest.fixture
def plane(own_control_plane: StartControlPlane, tmp_path: Path) -> ControlPlane:
    """Install the third-party CRDs; skip the test if Go cannot download them."""
    if shutil.which("go") is None:
        pytest.skip("no go on the PATH")
    command = ["go", "mod", "download", "-json", *DEFINITIONS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300.0, check=False)
    if done.returncode:
        pytest.skip(f"Go cannot get the modules: {(done.stdout + done.stderr).strip()[-500:]}")
    folders = [line.partition(": ")[2].strip('",') for line in done.stdout.splitlines() if '"Dir":' in line]
    paths = zip(folders, DEFINITIONS.values(), strict=True)
    plane = own_control_plane(parts=BARE)
    # They are too large for the annotation of a client-side apply.
    plane.kubectl("create", *(f"--filename={folder}/{path}" for folder, some in paths for path in some))
    wait_served(plane)
    create_namespace(plane, NAMESPACE)
    return plane


@pytest.mark.timeout(600)
def test_third_party_crds_accept_generated_objects_in_strict_validation(plane: ControlPlane, tmp_path: Path):
    assert main(["bundle", str(tmp_path)]) == 0
    found = [*manifests("prometheus"), *manifests("cert-manager")]
    foreign = [each for each in found if each["apiVersion"].partition("/")[0] in GROUPS]
    objects = [*foreign, yaml.safe_load((tmp_path / CSV).read_text())]
    for each in objects:
        each["metadata"]["namespace"] = NAMESPACE
    strictly = ("--dry-run=server", "--server-side", "--validate=strict", "--warnings-as-errors")
    done = plane.kubectl(
        "apply", *strictly, "--filename=-", stdin="\n".join(json.dumps(each) for each in objects)
    )
    kinds = Counter(line.partition(".")[0] for line in done.stdout.splitlines())
    assert kinds == {
        **dict.fromkeys(("certificate", "issuer", "prometheusrule", "servicemonitor"), 2),
        "clusterserviceversion": 1,
    }
