"""Generated files under `config/`, named as in kubebuilder.

This module and `roles` generate the files that depend on models, operators and webhooks. All other files are
copied from the folder `config` beside this module, with the names of the program and of an operator filled
in. Kustomize then adds a prefix to all names and puts all objects into one namespace. The
`kustomizeconfig.yaml` files tell kustomize which additional fields contain names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from manager.api import Resource
from manager.api.rights import RbacRule
from manager.util.program import Program
from manager.webhook.configurations import webhook_configurations
from manager.webhook.registration import Webhooks
from manager_kinds.manifests import yaml_stream
from manager_tools.codegen import roles
from manager_tools.codegen.manifest import UNPLACED, custom_resource_definitions

Manifest = dict[str, Any]

_WRITTEN = Path(__file__).with_name("config")
_KUSTOMIZATION = "kustomization.yaml"
_REFERENCES = "kustomizeconfig.yaml"
# Files in which only the program's name varies. The kustomizations of `default`, `network-policy` and
# `prometheus` belong to the project, which may patch the objects.
_CONSTANT = {
    "default": ("manager_metrics_patch.yaml", "manager_webhook_patch.yaml", "metrics_service.yaml"),
    "high-availability": (_KUSTOMIZATION, "pod_disruption_budget.yaml"),
    "network-policy": ("allow-metrics-traffic.yaml", "allow-webhook-traffic.yaml"),
    "prometheus": ("monitor.yaml", "rules.yaml"),
    "shards": (_KUSTOMIZATION, "role.yaml"),
}


def config_files(
    program: Program,
    kinds: Sequence[type[Resource]],
    rules: Mapping[str, Sequence[RbacRule]],
    samples: Iterable[str],
    webhooks: Webhooks,
    *,
    max_description: int | None = None,
) -> dict[str, str]:
    """Return the text of each generated file of `program` by its path under `config/`.

    `rules` has the RBAC rules by operator name, `samples` the names of the hand-written files in
    `config/samples/`. Descriptions are shortened to `max_description` characters, and 0 omits them. Raises
    ModelError if a model has no valid CRD.
    """
    every = [rule for each in rules.values() for rule in each]
    definitions = custom_resource_definitions(kinds, webhooks.conversions, max_description=max_description)
    converted = [each["metadata"]["name"] for each in definitions if "conversion" in each["spec"]]
    rbac = roles.of_manager(program.name, every, converted if webhooks else None) | roles.of_people(kinds)
    folders: dict[str, dict[str, str]] = {
        "crd": {f"bases/{_crd_file(each)}": yaml_stream([each]) for each in definitions},
        "rbac": _texts(program, rbac),
        "owner-references": _texts(program, roles.owner_references(every)),
    }
    if converted:
        folders["crd"] |= _written(program, "crd", _REFERENCES)
    if webhooks:
        configurations = webhook_configurations(webhooks, UNPLACED, program, prefix="")
        names = "issuer.yaml", "certificate-webhook.yaml", "secret.yaml", _REFERENCES
        folders |= {
            "webhook": {
                "manifests.yaml": yaml_stream(_labelled(each, program) for each in configurations),
                **_written(program, "webhook", "service.yaml", "secret.yaml", _REFERENCES),
            },
            "certmanager": _written(program, "certmanager", *names),
        }
    for files in folders.values():
        files[_KUSTOMIZATION] = _kustomization([name for name in files if name != _REFERENCES])
        if _REFERENCES in files:
            files[_KUSTOMIZATION] += f"configurations:\n- {_REFERENCES}\n"
    folders |= {folder: _written(program, folder, *constant) for folder, constant in _CONSTANT.items()}
    folders["samples"] = {_KUSTOMIZATION: _kustomization(sorted(samples))}
    folders["per-operator/operators"] = {_KUSTOMIZATION: _kustomization(list(rules))}
    for operator, theirs in rules.items():
        manifests = roles.running(f"{program.prefix}{operator}", theirs).values()
        [(name, text)] = _written(program, "per-operator", _KUSTOMIZATION).items()
        folders[f"per-operator/operators/{operator}"] = {
            name: text.replace("OPERATOR", operator),
            "rbac.yaml": yaml_stream(_labelled(each, program) for each in manifests),
        }
    return {f"{folder}/{name}": text for folder, files in folders.items() for name, text in files.items()}


def _crd_file(definition: Manifest) -> str:
    spec = definition["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


def _written(program: Program, folder: str, *names: str) -> dict[str, str]:
    texts = {name: (_WRITTEN / folder / name).read_text(encoding="utf-8") for name in names}
    return {name: text.replace("PROGRAM", program.name) for name, text in texts.items()}


def _texts(program: Program, manifests: Mapping[str, Manifest]) -> dict[str, str]:
    return {name: yaml_stream([_labelled(each, program)]) for name, each in manifests.items()}


def _labelled(manifest: Manifest, program: Program) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "labels": program.labels}}


def _kustomization(resources: list[str]) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return yaml_stream([{**head, "resources": resources}])


HEADER = "# Generated by `make generate` from the models and the operators. Do not edit.\n"


class GeneratedTree:
    """Generated files under a folder.

    A file in the folder is obsolete if it begins with the header of generated files but is no longer
    generated.
    """

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        self._root = root
        self._files = {root / path: HEADER + text for path, text in files.items()}

    def stale(self) -> list[Path]:
        """Return the sorted paths of files that are missing, outdated or obsolete."""
        changed = [path for path, text in self._files.items() if _content(path) != text]
        return sorted([*changed, *self._obsolete()])

    def write(self) -> list[Path]:
        """Write or remove each file that `stale` returns; return their sorted paths."""
        stale = self.stale()
        for path in stale:
            text = self._files.get(path)
            if text is None:
                path.unlink()
                with contextlib.suppress(OSError):
                    path.parent.rmdir()  # remove the folder if this was its last file
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return stale

    def _obsolete(self) -> list[Path]:
        found = (path for path in self._root.rglob("*.yaml") if path not in self._files)
        return [path for path in found if (_content(path) or "").startswith(HEADER)]


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
