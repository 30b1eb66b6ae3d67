"""Defaults and warnings for pod specs, both in pods and in pod templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from devcluster.builtin.base import child
from devcluster.builtin.checks import is_whole, round_up
from devcluster.names import dns_label

Object = dict[str, Any]

FILE_MODE = 0o644
_HTTP = {"httpGet": {"path": "/", "scheme": "HTTP"}}
_PROBE = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    "grpc": {"service": ""},
    **_HTTP,
}
_REFERENCE = {"fieldRef": {"apiVersion": "v1"}, "resourceFieldRef": {"divisor": "0"}}
_CONTAINER = {
    "ports": [{"protocol": "TCP"}],
    "env": [{"valueFrom": _REFERENCE}],
    **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), _PROBE),
    "lifecycle": {"postStart": _HTTP, "preStop": _HTTP},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_DOWNWARD = {"items": [_REFERENCE]}
_VOLUME = {
    "secret": {"defaultMode": FILE_MODE},
    "configMap": {"defaultMode": FILE_MODE},
    "downwardAPI": {"defaultMode": FILE_MODE, **_DOWNWARD},
    "projected": {
        "defaultMode": FILE_MODE,
        "sources": [{"downwardAPI": _DOWNWARD, "serviceAccountToken": {"expirationSeconds": 3600}}],
    },
    "hostPath": {"type": ""},
}
_SPEC = {
    "volumes": [_VOLUME],
    **{name: [_CONTAINER] for name in ("initContainers", "containers", "ephemeralContainers")},
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
}
"""Values of fields that are missing or, outside `_ZERO_COUNTS`, zero in Go, if the parent object exists."""
_ZERO_COUNTS = frozenset({"defaultMode", "expirationSeconds", "terminationGracePeriodSeconds"})


def _fill(value: Object, defaults: Mapping[str, Any]) -> None:
    for name, default in defaults.items():
        given = value.get(name)
        if type(default) is dict:
            if given is not None:
                _fill(given, default)
        elif type(default) is list:
            for each in given or ():
                _fill(each, default[0])
        elif not given and (given is None or name not in _ZERO_COUNTS):
            value[name] = default


def default_pod(obj: Object) -> None:
    """Set a pod's defaults: those of every pod spec, and those that pod templates do not get."""
    spec = obj["spec"]
    default_pod_spec(spec)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container["resources"]
        if resources.get("limits"):
            requests = child(resources, "requests")
            for name, limit in resources["limits"].items():
                requests.setdefault(name, limit)
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort", 0))
    spec.setdefault("enableServiceLinks", True)


def default_pod_spec(spec: Object) -> None:
    """Set the defaults of a pod spec, in a pod or in a template."""
    _fill(spec, _SPEC)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            resources = child(container, "resources")
            round_up(resources.get("limits"))
            round_up(resources.get("requests"))
            if not container.get("imagePullPolicy"):
                container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # For older clients, the field's older name gets the same value.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    child(spec, "securityContext")
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"


def _pull_policy(image: str) -> str:
    if not image or "@" in image or "://" in image:  # without a name, the last part has no tag
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _default_volume(volume: Object) -> None:
    if not any(isinstance(each, dict) for each in volume.values()):
        volume["emptyDir"] = {}
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template:
        child(template, "metadata")
        if not child(template, "spec").get("volumeMode"):
            template["spec"]["volumeMode"] = "Filesystem"
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = _pull_policy(image.get("reference", ""))


def name_warnings(name: str, used: str = "Pod names and hostnames") -> list[str]:
    """Return a warning if `name` is not a DNS label; `used` tells in the warning where the name is used."""
    wrong = " ".join(dns_label(name))
    why = "which can result in surprising behavior; a DNS label is recommended"
    return [f"metadata.name: this is used in {used}, {why}: [{wrong}]"] if wrong else []


def pod_warnings(spec: Object, path: str) -> list[str]:
    """Return warnings about duplicate ports and variables, and about invalid values that are accepted."""
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
