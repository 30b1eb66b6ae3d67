"""Warnings for writers of pods and pod templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from devcluster.builtin.quantity import is_whole
from devcluster.names import dns_label

__all__ = ["name_warnings", "pod_warnings"]

Object = Mapping[str, Any]


def name_warnings(name: str, used: str = "Pod names and hostnames") -> list[str]:
    """Warn of a name that is not a valid host name; `used` says where it becomes one."""
    wrong = " ".join(dns_label(name))
    why = "which can result in surprising behavior; a DNS label is recommended"
    return [f"metadata.name: this is used in {used}, {why}: [{wrong}]"] if wrong else []


def pod_warnings(spec: Object, path: str) -> list[str]:
    """Warn of duplicate ports and variables, and of settings without effect."""
    warnings: list[str] = []
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            warnings.append(f'{path}.imagePullSecrets[{index}].name: invalid empty name ""')
    containers = list(_containers(spec, path))
    for here, container in containers:
        warnings += _hidden_variables(container, here)
    for here, container in containers:
        warnings += _parts_of_bytes(container, here)
    warnings += _ports(containers)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        warnings.append(f"{path}.terminationGracePeriodSeconds: {text}")
    return warnings


def _containers(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield f"{path}.{field}[{index}]", container


def _parts_of_bytes(container: Object, path: str) -> list[str]:
    resources = container.get("resources") or {}
    return [
        f'{path}.resources.{part}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'
        for name in ("memory", "ephemeral-storage")
        for part in ("limits", "requests")
        if (amount := (resources.get(part) or {}).get(name)) is not None and not is_whole(amount)
    ]


def _hidden_variables(container: Object, path: str) -> list[str]:
    warnings: list[str] = []
    names: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        if name in names and (value == reference or reference not in value):
            hidden = f'hides previous definition of "{name}", which may be dropped when using apply'
            warnings.append(f"{path}.env[{index}]: {hidden}")
        names.add(name)
    return warnings


def _ports(containers: list[tuple[str, Object]]) -> list[str]:
    warnings: list[str] = []
    seen: dict[tuple[Any, Any], list[tuple[str, Object]]] = {}
    names: dict[str, str] = {}
    named: list[str] = []
    for path, container in containers:
        for index, port in enumerate(container.get("ports") or ()):
            here = f"{path}.ports[{index}]"
            others = seen.setdefault((port.get("containerPort"), port.get("protocol")), [])
            for there, other in others:
                warnings += _clash(here, port, there, other)
            others.append((here, port))
            name = port.get("name")
            if name and name in names:
                first = names[name]
                text = f"services and probes that select ports by name will use {first}"
                named.append(f'{here}: duplicate port name "{name}" with {first}, {text}')
            elif name:
                names[name] = here
    return warnings + named


def _clash(here: str, port: Object, there: str, other: Object) -> list[str]:
    addresses = port.get("hostIP", ""), other.get("hostIP", "")
    numbers = port.get("hostPort", 0), other.get("hostPort", 0)
    if addresses[0] == addresses[1] and numbers[0] == numbers[1]:
        return [f"{here}: duplicate port definition with {there}"]
    if not all(numbers):
        return [f"{here}: overlapping port definition with {there}"]
    if numbers[0] == numbers[1] and bool(addresses[0]) != bool(addresses[1]):
        return [f"{here}: dangerously ambiguous port definition with {there}"]
    return []
