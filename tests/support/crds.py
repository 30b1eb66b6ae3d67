"""Installation of the CRDs that `operator-manager crds` prints, as README.md describes it."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manager.util.yaml_text import yaml_documents
from tests.support.api_access import ApiFailure
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.manager_process import run_once

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@functools.cache
def printed_crds() -> str:
    """Return the output of `operator-manager crds`, cached because starting the program is slow."""
    with tempfile.TemporaryDirectory() as home:
        done = run_once("crds", folder=Path(home))
    assert done.returncode == 0, done.stderr
    return done.stdout


def untyped_definition(group: str, version: str, kind: str, plural: str) -> dict[str, Any]:
    """Return the CRD of a namespaced kind that allows any field and has no status subresource."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    approved = {"api-approved.kubernetes.io": "unapproved, for a test"}
    return {
        "metadata": {"name": f"{plural}.{group}", "annotations": approved},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def install_crds(plane: ControlPlane) -> None:
    """Apply the CRDs and wait until the API server serves them."""
    plane.api.apply(yaml_documents(printed_crds()))
    wait_served(plane)


def wait_served(plane: ControlPlane) -> None:
    """Wait until every client can use the kinds that the server's CRDs define.

    A CRD is established before the server serves its objects. Discovery lists the kind later, and the server
    publishes the schema last; a different controller in the API server does each step.
    """
    definitions = [
        each for each in plane.api.get(DEFINITIONS)["items"] if "deletionTimestamp" not in each["metadata"]
    ]
    waiting = [
        (each["spec"], version["name"])
        for each in definitions
        for version in each["spec"]["versions"]
        if version["served"]
    ]

    def all_are_served() -> None:
        # Discovery as old clients request it, and aggregated discovery.
        groups = {each["name"]: each["versions"] for each in plane.api.get("/apis")["groups"]}
        aggregated = json.loads(plane.api.request("GET", "/apis", accept=AGGREGATED))["items"]
        told = {each["metadata"]["name"]: each["versions"] for each in aggregated}
        while waiting:  # request each schema only until it is served, because it costs the server much time
            spec, name = waiting[-1]
            group = spec["group"]
            assert name in {each["version"] for each in groups[group]}
            (resources,) = (each["resources"] for each in told[group] if each["version"] == name)
            assert spec["names"]["plural"] in {each["resource"] for each in resources}
            _is_served(plane, spec, name)
            waiting.pop()

    eventually(all_are_served, every=0.05)


def _is_served(plane: ControlPlane, spec: Mapping[str, Any], version: str) -> None:
    group, plural, kind = spec["group"], spec["names"]["plural"], spec["names"]["kind"]
    try:
        plane.api.get(f"/apis/{group}/{version}/{plural}", limit="1")
    except ApiFailure as failure:
        # The server serves the kind, but has objects of another test whose conversion webhook is gone. Then
        # the real server cannot fill its cache of this version.
        needs_webhook = spec.get("conversion", {}).get("strategy") == "Webhook"
        if not needs_webhook or not any(
            sign in str(failure) for sign in ("conversion webhook", "initializing")
        ):
            raise
    assert plural in {each["name"] for each in plane.api.get(f"/apis/{group}/{version}")["resources"]}
    schemas = plane.api.get(f"/openapi/v3/apis/{group}/{version}")["components"]["schemas"].values()
    shown = [each.get("x-kubernetes-group-version-kind", ()) for each in schemas]
    assert {"group": group, "kind": kind, "version": version} in [one for some in shown for one in some]
