"""What we make of kinds that others define is what their definitions say, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from release.cli import main
from tests.support.crds import wait_served
from tests.support.envtest import BARE
from tests.support.foreign_definitions import (
    CERTIFICATES,
    ISSUERS,
    RULES,
    SERVICE_MONITORS,
    SERVICE_VERSIONS,
    definition,
)
from tests.support.manifests import Manifest, manifests
from tests.support.namespaces import create_namespace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import StartControlPlane
    from tests.support.control_plane import ControlPlane

NAMESPACE = "foreign"
CSV = "operator-manager.clusterserviceversion.yaml"


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> ControlPlane:
    """A control plane of our own: nobody else expects such kinds."""
    kinds = (CERTIFICATES, ISSUERS, RULES, SERVICE_MONITORS, SERVICE_VERSIONS)
    found = [definition(each) for each in kinds]
    plane = module_control_plane(parts=BARE)
    for path in found:
        # Too large for what a client-side apply notes in an annotation.
        plane.kubectl("create", f"--filename={path}")
    wait_served(plane)
    create_namespace(plane, NAMESPACE)
    return plane


def strictly_accepted(plane: ControlPlane, objects: list[Manifest]) -> list[str]:
    """The objects, in a namespace that is there, as the API server would take them."""
    placed = [{**each, "metadata": {**each["metadata"], "namespace": NAMESPACE}} for each in objects]
    done = plane.kubectl(
        "apply",
        "--dry-run=server",
        "--server-side",
        "--validate=strict",
        "--warnings-as-errors",
        "--filename=-",
        stdin=yaml.safe_dump_all(placed),
    )
    return done.stdout.splitlines()


@pytest.mark.timeout(600)
def test_monitors_and_rules_are_what_the_prometheus_operator_defines(plane: ControlPlane) -> None:
    accepted = strictly_accepted(plane, manifests("prometheus"))
    assert len(accepted) == 3
    assert {line.partition("/")[0] for line in accepted} == {
        "prometheusrule.monitoring.coreos.com",
        "servicemonitor.monitoring.coreos.com",
    }


@pytest.mark.timeout(600)
def test_certificates_and_issuers_are_what_cert_manager_defines(plane: ControlPlane) -> None:
    ours = [each for each in manifests("cert-manager") if each["apiVersion"] == "cert-manager.io/v1"]
    accepted = strictly_accepted(plane, ours)
    kinds = sorted(line.partition(".")[0] for line in accepted)
    assert kinds == ["certificate", "certificate", "issuer", "issuer"]


@pytest.mark.timeout(600)
def test_the_bundles_service_version_is_what_olm_defines(plane: ControlPlane, tmp_path: Path) -> None:
    assert main(["bundle", str(tmp_path)]) == 0
    version = yaml.safe_load((tmp_path / "bundle" / "manifests" / CSV).read_text())
    (accepted,) = strictly_accepted(plane, [version])
    assert accepted.startswith("clusterserviceversion.operators.coreos.com/operator-manager.v")


@pytest.mark.timeout(600)
def test_a_field_that_they_do_not_define_is_seen(plane: ControlPlane) -> None:
    monitor = next(each for each in manifests("prometheus") if each["kind"] == "ServiceMonitor")
    monitor["spec"]["endpoint"] = []
    with pytest.raises(
        AssertionError, match=r'spec\.endpoint: field not declared in schema|unknown field "spec.endpoint"'
    ):
        strictly_accepted(plane, [monitor])
