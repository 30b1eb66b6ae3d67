"""Output of `kubectl kustomize` for the overlays in config/."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from manager.util.yaml_text import yaml_documents
from manager_tools.chart import build
from tests.support import ROOT

Manifest = dict[str, Any]

SYSTEM = "operator-manager-system"
MANAGER = "operator-manager-controller-manager"
PETSTORE = "operator-manager-petstore"

_CONFIG = ROOT / "config"
OVERLAYS = sorted(str(path.parent.relative_to(_CONFIG)) for path in _CONFIG.rglob("kustomization.yaml"))
"""Every folder that kustomize builds, as a path under config/."""


# Cache by the content of the files, shared by all workers and later runs.
_KEPT = ROOT / ".pytest_cache" / "manifests"


@functools.cache
def _as_json(overlay: str) -> str:
    kept = _KEPT / f"{overlay.replace('/', '+')}.json"
    with contextlib.suppress(OSError):
        made_of, _, text = kept.read_text().partition("\n")
        if made_of == _config():
            return text
    text = json.dumps(yaml_documents(build(_CONFIG / overlay)))
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=kept.parent, delete=False) as written:
        written.write(f"{_config()}\n{text}")
    Path(written.name).replace(kept)
    return text


@functools.cache
def _config() -> str:
    """Return a cache key that changes with the content of config/ and with the kubectl program."""
    program = Path(shutil.which(_kubectl()) or "").resolve()
    seen = hashlib.sha256(f"{program} {program.stat().st_mtime_ns}".encode())
    for path in sorted(path for path in _CONFIG.rglob("*") if path.is_file()):
        seen.update(f"\0{path.relative_to(_CONFIG)}\0".encode() + path.read_bytes())
    return seen.hexdigest()


def _kubectl() -> str:
    """Return the program that `build` runs."""
    return os.environ.get("KUBECTL") or "kubectl"


def manifests(overlay: str = "default") -> list[Manifest]:
    """Return copies of all objects of an overlay; skip the test when there is no kubectl ($KUBECTL)."""
    if shutil.which(_kubectl()) is None:
        pytest.skip(f"no {_kubectl()} on the PATH")
    found: list[Manifest] = json.loads(_as_json(overlay))
    return found


def the(kind: str, name: str, overlay: str = "default") -> Manifest:
    (found,) = [
        each for each in manifests(overlay) if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found


def pod_of(deployment: Manifest) -> Manifest:
    spec: Manifest = deployment["spec"]["template"]["spec"]
    return spec


def container_of(deployment: Manifest) -> Manifest:
    """Return the only container in the Deployment's pod template."""
    (container,) = pod_of(deployment)["containers"]
    found: Manifest = container
    return found


def flags_of(deployment: Manifest) -> list[str]:
    """Return the arguments of the manager's container in its Deployment."""
    command, *flags = container_of(deployment)["args"]
    assert command == "run"
    return flags


def rule_groups() -> list[Manifest]:
    """Return the groups of alerting rules in config/prometheus."""
    files = [_CONFIG / "prometheus" / name for name in ("rules.yaml", "petstore_rules.yaml")]
    return [group for file in files for group in yaml_documents(file.read_bytes())[0]["spec"]["groups"]]


def write_rules(file: Path) -> None:
    """Write the rules in config/prometheus to a rule file that Prometheus can load."""
    file.write_text(json.dumps({"groups": rule_groups()}))
