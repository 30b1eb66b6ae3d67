"""Fixtures that deploy the product on the cluster once, and remove it after the tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from tests.e2e import cluster
from tests.e2e.cluster import (
    CLIENT,
    FAULTS,
    IMG,
    NAMESPACE,
    OUT,
    SYSTEM,
    apply,
    deploy,
    kubectl,
    make,
    say,
    why_not,
)
from tests.support.api_objects import manifest

_CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Kinds whose objects appear and disappear in any cluster.
_PASSING = (
    *("events", "events.events.k8s.io", "componentstatuses"),
    "certificatesigningrequests.certificates.k8s.io",
)


def _inventory() -> set[str]:
    """Return the names of all objects in the cluster, except short-lived kinds such as Events."""
    kinds = kubectl("api-resources", "--verbs=list", "--output=name").split()
    asked = ",".join(kind for kind in kinds if kind not in _PASSING)
    names = '--output=jsonpath={range .items[*]}{.kind} {.metadata.namespace} {.metadata.name}{"\\n"}{end}'
    return set(kubectl("get", asked, "--all-namespaces", names, "--ignore-not-found").splitlines())


@pytest.fixture(scope="session")
def inventory() -> set[str]:
    """Return the names of all objects in the cluster before the deployment."""
    if reason := why_not(os.environ.get("KUBECONFIG")):
        pytest.skip(reason)
    return _inventory()


@pytest.fixture(scope="session")
def leftovers(inventory: set[str]) -> Callable[[], set[str]]:
    """Return a function that returns the names of objects created since the inventory."""
    return lambda: _inventory() - inventory


@pytest.fixture(scope="session")
def deployed(inventory: set[str]) -> Iterator[None]:
    """Deploy the product as README.md describes, and a client pod; remove both later unless KEEP is set."""
    ours = [each for each in inventory if "operator-manager" in each or ".example.com" in each]
    assert not ours, (
        f"the cluster is in use: it has {ours[0]}; make undeploy removes everything, objects included"
    )
    OUT.mkdir(parents=True, exist_ok=True)
    try:
        for name in (NAMESPACE, FAULTS):
            enforced = "restricted" if name == NAMESPACE else "privileged"
            labels = {"metrics": "enabled", "pod-security.kubernetes.io/enforce": enforced}
            apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        began = time.monotonic()
        deploy()
        say(f"manager and pet store are ready after {cluster.seconds_since(began)}")
        apply(client_pod())
        kubectl("wait", "--for=condition=Ready", f"pod/{CLIENT}", "--timeout=60s")
        yield
    finally:
        if os.environ.get("KEEP"):
            say("KEEP is set: everything stays; make undeploy OVERLAY=console removes it")
        else:
            remove()


def remove() -> None:
    """Remove the product, if it exists, and the namespaces of these tests."""
    if kubectl("get", "namespace", SYSTEM, "--ignore-not-found", "--output=name"):
        make("undeploy", "OVERLAY=console")
    kubectl("delete", "clusterrolebinding", CLIENT, f"{NAMESPACE}-viewer", "--ignore-not-found")
    kubectl("delete", "namespace", NAMESPACE, FAULTS, "--ignore-not-found", within=180)


def client_pod() -> dict[str, Any]:
    """Return the manifest of an idle pod in which tests start programs."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "python",
        "image": IMG,
        "command": ["sleep", "infinity"],
        "securityContext": security,
    }
    confined = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"terminationGracePeriodSeconds": 1, "securityContext": confined, "containers": [container]}
    return manifest("v1", "Pod", CLIENT, **spec)


@pytest.fixture(scope="session")
def samples(deployed: None) -> None:
    say("$ kubectl apply -k config/samples")
    kubectl("apply", "--kustomize=config/samples")


@contextlib.contextmanager
def chromium(*flags: str) -> Iterator[Page]:
    """Open a browser page in Chromium with an empty profile."""
    assert _CHROMIUM, "there is no chromium on this machine"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=_CHROMIUM, args=["--no-sandbox", "--disable-gpu", *flags]
        )
        try:
            yield browser.new_page(viewport={"width": 1280, "height": 900})
        finally:
            browser.close()
