"""Models of foreign kinds: generated objects match the kinds' definitions, field by field."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

from release.cli import main
from tests.conftest import StartControlPlane
from tests.support.api_objects import create_namespace
from tests.support.control_plane import ControlPlane
from tests.support.crds import wait_served
from tests.support.envtest import BARE
from tests.support.manifests import Manifest, manifests

NAMESPACE = "foreign"
CSV = "operator-manager.clusterserviceversion.yaml"
DOWNLOADED_WITHIN = 120.0
PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.82.0"
CERT_MANAGER = "github.com/cert-manager/cert-manager@v1.21.2"
OLM = "github.com/operator-framework/api@v0.30.0"

SERVICE_MONITORS = (
    PROMETHEUS_OPERATOR,
    "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
)
RULES = (PROMETHEUS_OPERATOR, "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml")
CERTIFICATES = (CERT_MANAGER, "deploy/crds/cert-manager.io_certificates.yaml")
ISSUERS = (CERT_MANAGER, "deploy/crds/cert-manager.io_issuers.yaml")
SERVICE_VERSIONS = (OLM, "crds/operators.coreos.com_clusterserviceversions.yaml")


def definition(origin: tuple[str, str]) -> Path:
    """Return the file of a definition; skip the test if Go cannot get its module."""
    module, path = origin
    folder, problem = _module(module)
    if folder is None:
        pytest.skip(f"{module} cannot be had: {problem}")
    return folder / path


@functools.cache
def _module(module: str) -> tuple[Path | None, str]:
    """Return a module's folder in Go's own cache, or the reason for its absence."""
    go = shutil.which("go")
    if go is None:
        return None, "no go on the PATH"
    with tempfile.TemporaryDirectory() as nowhere:
        try:
            done = subprocess.run(
                [go, "mod", "download", "-json", module],
                cwd=nowhere,
                capture_output=True,
                text=True,
                timeout=DOWNLOADED_WITHIN,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"no answer within {DOWNLOADED_WITHIN:g} s"
    if done.returncode:
        said = json.loads(done.stdout)["Error"] if done.stdout else done.stderr
        return None, said.strip().splitlines()[-1]
    return Path(json.loads(done.stdout)["Dir"]), ""


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> ControlPlane:
    """Start a control plane for this module, because other tests do not expect such kinds."""
    kinds = (CERTIFICATES, ISSUERS, RULES, SERVICE_MONITORS, SERVICE_VERSIONS)
    found = [definition(each) for each in kinds]
    plane = module_control_plane(parts=BARE)
    # Too large for what a client-side apply notes in an annotation.
    plane.kubectl("create", *(f"--filename={path}" for path in found))
    wait_served(plane)
    create_namespace(plane, NAMESPACE)
    return plane


def strictly_accepted(plane: ControlPlane, objects: list[Manifest]) -> list[str]:
    """Dry-run the objects against the API server in an existing namespace, with strict validation."""
    placed = [{**each, "metadata": {**each["metadata"], "namespace": NAMESPACE}} for each in objects]
    done = plane.kubectl(
        "apply",
        "--dry-run=server",
        "--server-side",
        "--validate=strict",
        "--warnings-as-errors",
        "--filename=-",
        stdin="\n".join(map(json.dumps, placed)),
    )
    return done.stdout.splitlines()


@pytest.mark.timeout(600)
def test_service_monitor_and_rule_manifests_pass_strict_validation_by_prometheus_operator_crds(
    plane: ControlPlane,
):
    accepted = strictly_accepted(plane, manifests("prometheus"))
    assert len(accepted) == 4
    assert {line.partition("/")[0] for line in accepted} == {
        "prometheusrule.monitoring.coreos.com",
        "servicemonitor.monitoring.coreos.com",
    }


@pytest.mark.timeout(600)
def test_certificate_and_issuer_manifests_pass_strict_validation_by_cert_manager_crds(plane: ControlPlane):
    ours = [each for each in manifests("cert-manager") if each["apiVersion"] == "cert-manager.io/v1"]
    accepted = strictly_accepted(plane, ours)
    kinds = sorted(line.partition(".")[0] for line in accepted)
    assert kinds == ["certificate", "certificate", "issuer", "issuer"]


@pytest.mark.timeout(600)
def test_olm_bundle_cluster_service_version_passes_strict_validation(plane: ControlPlane, tmp_path: Path):
    assert main(["bundle", str(tmp_path)]) == 0
    version = yaml.safe_load((tmp_path / "bundle" / "manifests" / CSV).read_text())
    (accepted,) = strictly_accepted(plane, [version])
    assert accepted.startswith("clusterserviceversion.operators.coreos.com/operator-manager.v")
