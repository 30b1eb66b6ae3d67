"""Defaults of pod specs, and warnings for their writers, in pods and in templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from devcluster.builtin.base import child
from devcluster.builtin.checks import is_whole, round_up
from devcluster.names import dns_label

Object = dict[str, Any]

FILE_MODE = 0o644
TOKEN_SECONDS = 3600
PROBE = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3))
HOOKS = ("postStart", "preStop")
CONTAINER = (("terminationMessagePath", "/dev/termination-log"), ("terminationMessagePolicy", "File"))
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default_pod(obj: Object) -> None:
    """Set the defaults of a pod: those of its spec, requests from limits, and host ports."""
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
    """Set the defaults of every pod spec."""
    _volumes(spec.get("volumes") or ())
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            _container(container)
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # The older name has the same value, for clients that know only that one.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"


def _resources(container: Object) -> None:
    resources = child(container, "resources")
    for part in ("limits", "requests"):
        round_up(resources.get(part))


def _container(container: Object) -> None:
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        if variable.get("valueFrom"):
            _reference(variable["valueFrom"])
    _resources(container)
    for name in PROBES:
        if container.get(name) is not None:
            _probe(container[name])
    for name in HOOKS:
        _http((container.get("lifecycle") or {}).get(name) or {})
    for name, value in CONTAINER:
        if not container.get(name):
            container[name] = value
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))


def _reference(source: Object) -> None:
    """Set the defaults of a reference to a pod field or to a container resource."""
    field, resource = source.get("fieldRef"), source.get("resourceFieldRef")
    if field and not field.get("apiVersion"):
        field["apiVersion"] = "v1"
    if resource is not None:
        resource.setdefault("divisor", "0")


def _pull_policy(image: str) -> str:
    if not image or "@" in image or "://" in image:  # the last is no name, and so has no tag
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _probe(probe: Object) -> None:
    for name, value in PROBE:
        if not probe.get(name):
            probe[name] = value
    _http(probe)
    if probe.get("grpc") is not None:
        probe["grpc"]["service"] = probe["grpc"].get("service") or ""


def _http(handler: Object) -> None:
    action = handler.get("httpGet")
    if action is not None:
        if not action.get("path"):
            action["path"] = "/"
        if not action.get("scheme"):
            action["scheme"] = "HTTP"


def _volumes(volumes: Any) -> None:
    for volume in volumes:
        sources = [each for each in volume.values() if isinstance(each, dict)]
        if not sources:
            volume["emptyDir"] = {}
        for name in ("secret", "configMap", "downwardAPI", "projected"):
            if volume.get(name) is not None and volume[name].get("defaultMode") is None:
                volume[name]["defaultMode"] = FILE_MODE
        _projections(volume)
        if volume.get("hostPath") is not None and volume["hostPath"].get("type") is None:
            volume["hostPath"]["type"] = ""
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template and not child(template, "spec").get("volumeMode"):
            template["spec"]["volumeMode"] = "Filesystem"
        if template:
            child(template, "metadata")
        image = volume.get("image")
        if image is not None and not image.get("pullPolicy"):
            image["pullPolicy"] = _pull_policy(image.get("reference", ""))


def _projections(volume: Object) -> None:
    items = (volume.get("downwardAPI") or {}).get("items") or []
    for source in (volume.get("projected") or {}).get("sources") or ():
        items = [*items, *((source.get("downwardAPI") or {}).get("items") or ())]
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = TOKEN_SECONDS
    for item in items:
        _reference(item)


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
