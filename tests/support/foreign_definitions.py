"""The definitions of kinds that others define, as their projects publish them: with their Go modules."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

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
    """The file of a definition; skips the test where Go cannot get its module."""
    module, path = origin
    folder, problem = _module(module)
    if folder is None:
        pytest.skip(f"{module} cannot be had: {problem}")
    return folder / path


@functools.cache
def _module(module: str) -> tuple[Path | None, str]:
    """The folder of a module in Go's own cache, or why there is none."""
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
