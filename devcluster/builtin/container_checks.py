"""Validation of containers, their probes and lifecycle hooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from devcluster.builtin.checks import non_negative, one_of, port, required_name, resource_requirements, texts
from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_not_found,
    field_required,
    field_unsupported,
)
from devcluster.names import (
    config_key,
    dns_label,
    dns_subdomain,
    environment_name,
    header_name,
    label_key,
    port_name,
    port_number,
)
from devcluster.types.table import choices

Object = Mapping[str, Any]

PROTOCOLS = choices("core.v1.ContainerPort.protocol")
PULL_POLICIES = choices("core.v1.Container.imagePullPolicy")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
RESTART_POLICIES = choices("core.v1.PodSpec.restartPolicy")
INIT_ONLY = "may not be set for init containers without restartPolicy=Always"
FIELD_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
RESOURCE_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def containers(spec: Object, volumes: Collection[str], path: str) -> list[FieldError]:
    """Check the containers of a pod; `volumes` are the names of its valid volumes."""
    listed: Sequence[Object] = spec.get("containers") or ()
    if not listed:
        return [field_required(path)]
    wrong: list[FieldError] = []
    names: set[str] = set()
    for index, container in enumerate(listed):
        here = f"{path}[{index}]"
        wrong += _common(container, volumes, here)
        name = container.get("name", "")
        if name in names:
            wrong.append(field_duplicate(f"{here}.name", name))
        names.add(name)
        wrong += life(container, spec, here)
        policy = container.get("restartPolicy")
        if policy is not None and policy not in RESTART_POLICIES:
            wrong.append(field_unsupported(f"{here}.restartPolicy", policy, RESTART_POLICIES))
    return wrong + _host_ports(listed, path)


def init_containers(spec: Object, volumes: Collection[str], path: str) -> list[FieldError]:
    """Check the init containers, sidecars included."""
    wrong: list[FieldError] = []
    names = {each.get("name", "") for each in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        here = f"{path}[{index}]"
        wrong += _common(container, volumes, here)
        policy = container.get("restartPolicy")
        if policy is not None and policy not in RESTART_POLICIES:
            wrong.append(field_unsupported(f"{here}.restartPolicy", policy, RESTART_POLICIES))
        name = container.get("name", "")
        if name in names:
            wrong.append(field_duplicate(f"{here}.name", name))
        elif name:
            names.add(name)
        wrong += _host_ports([container], path)
        if policy == "Always":
            wrong += life(container, spec, here)
        else:
            kept = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
            wrong += [
                field_forbidden(f"{here}.{each}", INIT_ONLY)
                for each in kept
                if container.get(each) is not None
            ]
    return wrong


def _common(container: Object, volumes: Collection[str], path: str) -> list[FieldError]:
    wrong = required_name(container.get("name", ""), f"{path}.name", dns_label)
    if not container.get("image"):
        wrong.append(field_required(f"{path}.image"))
    wrong += one_of(
        container.get("terminationMessagePolicy"), f"{path}.terminationMessagePolicy", MESSAGE_POLICIES
    )
    if container.get("ports"):
        wrong += _ports(container["ports"], f"{path}.ports")
    if container.get("env"):
        wrong += _environment(container["env"], f"{path}.env")
    if container.get("envFrom"):
        wrong += _environment_sources(container["envFrom"], f"{path}.envFrom")
    if container.get("volumeMounts"):
        wrong += _mounts(container, volumes, f"{path}.volumeMounts")
    wrong += one_of(container.get("imagePullPolicy"), f"{path}.imagePullPolicy", PULL_POLICIES)
    if container.get("resources"):
        wrong += resource_requirements(container["resources"], f"{path}.resources")
    if container.get("securityContext"):
        wrong += _security(container["securityContext"], f"{path}.securityContext")
    return wrong


def _ports(ports: Sequence[Object], path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    names: set[str] = set()
    for index, each in enumerate(ports):
        here = f"{path}[{index}]"
        name, number, host = each.get("name"), each.get("containerPort", 0), each.get("hostPort", 0)
        if name:
            bad = port_name(name)
            wrong += texts(bad, f"{here}.name", name)
            if not bad and name in names:
                wrong.append(field_duplicate(f"{here}.name", name))
            names.add(name)
        if not number:
            wrong.append(field_required(f"{here}.containerPort"))
        else:
            wrong += texts(port_number(number), f"{here}.containerPort", number)
        if host:
            wrong += texts(port_number(host), f"{here}.hostPort", host)
        wrong += one_of(each.get("protocol"), f"{here}.protocol", PROTOCOLS)
    return wrong


def _host_ports(listed: Sequence[Object], path: str) -> list[FieldError]:
    wrong = []
    taken = set()
    for index, container in enumerate(listed):
        for number, each in enumerate(container.get("ports") or ()):
            if not each.get("hostPort"):
                continue
            shown = f"{each.get('protocol', '')}/{each.get('hostIP', '')}/{each['hostPort']}"
            if shown in taken:
                wrong.append(field_duplicate(f"{path}[{index}].ports[{number}].hostPort", shown))
            taken.add(shown)
    return wrong


def _environment(variables: Sequence[Object], path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    for index, variable in enumerate(variables):
        here = f"{path}[{index}]"
        wrong += required_name(variable.get("name", ""), f"{here}.name", environment_name)
        if variable.get("valueFrom") is not None:
            wrong += _value_from(variable, f"{here}.valueFrom")
    return wrong


def _value_from(variable: Object, path: str) -> list[FieldError]:
    source = variable["valueFrom"]
    wrong: list[FieldError] = []
    given = [each for each in SOURCES if source.get(each) is not None]
    if "fieldRef" in given:
        wrong += _field_reference(source["fieldRef"], f"{path}.fieldRef")
    if "resourceFieldRef" in given:
        resource = source["resourceFieldRef"].get("resource", "")
        if not resource:
            wrong.append(field_required(f"{path}.resourceFieldRef.resource"))
        elif resource not in RESOURCE_FIELDS and ".hugepages-" not in resource:
            wrong.append(field_unsupported(f"{path}.resourceFieldRef.resource", resource, RESOURCE_FIELDS))
    for each in ("configMapKeyRef", "secretKeyRef"):
        if each in given:
            name = source[each].get("name", "")
            wrong += texts(dns_subdomain(name), f"{path}.{each}.name", name)
            wrong += required_name(source[each].get("key", ""), f"{path}.{each}.key", config_key)
    if not given:
        text = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
            "`fileKeyRef`"
        )
        wrong.append(field_invalid(path, "", text))
    elif variable.get("value"):
        wrong.append(field_invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        wrong.append(field_invalid(path, "", "may not have more than one field specified at a time"))
    return wrong


def _field_reference(reference: Object, path: str) -> list[FieldError]:
    name = reference.get("fieldPath", "")
    if not name:
        return [field_required(f"{path}.fieldPath")]
    base, bracket, key = name.partition("[")
    if bracket and key.startswith("'") and key.endswith("']"):
        key = key[1:-2]
        if base not in {"metadata.annotations", "metadata.labels"}:
            return [field_invalid(path, base, "does not support subscript")]
        key = key.lower() if base == "metadata.annotations" else key
        return texts(label_key(key), path, key)
    return label_key_or_path(name, f"{path}.fieldPath", FIELD_PATHS)


def label_key_or_path(name: str, path: str, supported: Sequence[str]) -> list[FieldError]:
    """Check a pod field that the downward API exposes."""
    if name in supported:
        return []
    if name in {"metadata.annotations", "metadata.labels", *FIELD_PATHS}:
        return [field_unsupported(path, name, supported)]
    return [field_invalid(path, name, f"error converting fieldPath: field label not supported: {name}")]


def _environment_sources(sources: Sequence[Object], path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        if source.get("prefix"):
            wrong += texts(environment_name(source["prefix"]), f"{here}.prefix", source["prefix"])
        given = [each for each in ("configMapRef", "secretRef") if source.get(each) is not None]
        for each in given:
            name = source[each].get("name", "")
            wrong += required_name(name, f"{here}.{each}.name", lambda name: dns_subdomain(name, prefix=True))
        if not given:
            wrong.append(field_invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            wrong.append(field_invalid(path, "", "may not have more than one field specified at a time"))
    return wrong


def _mounts(container: Object, volumes: Collection[str], path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    points: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        here = f"{path}[{index}]"
        name, point = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            wrong.append(field_required(f"{here}.name"))
        if name not in volumes:
            wrong.append(field_not_found(f"{here}.name", name))
        if not point:
            wrong.append(field_required(f"{here}.mountPath"))
        if point in points:
            wrong.append(field_invalid(f"{here}.mountPath", point, "must be unique"))
        points.add(point)
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                wrong += local_path(mount[field], f"{path}.{field}")
        if mount.get("subPath") and mount.get("subPathExpr"):
            text = "subPathExpr and subPath are mutually exclusive"
            wrong.append(field_invalid(f"{here}.subPathExpr", mount["subPathExpr"], text))
    return wrong


def local_path(value: str, path: str) -> list[FieldError]:
    """Check a path below a directory."""
    if value.startswith("/"):
        return [field_invalid(path, value, "must be a relative path"), *no_backsteps(value, path)]
    return no_backsteps(value, path)


def no_backsteps(value: str, path: str) -> list[FieldError]:
    """Check that a path has no `..`."""
    return [field_invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def _security(context: Object, path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    for name in ("runAsUser", "runAsGroup"):
        number = context.get(name)
        if number is not None and not 0 <= number <= 2**31 - 1:
            wrong.append(
                field_invalid(f"{path}.{name}", number, f"must be between 0 and {2**31 - 1}, inclusive")
            )
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        wrong.append(field_invalid(path, dict(context), text))
    return wrong


def life(container: Object, spec: Object, path: str) -> list[FieldError]:
    """Check the container's hooks and probes; `spec` is the pod's."""
    wrong: list[FieldError] = []
    for name in ("postStart", "preStop"):
        hook = (container.get("lifecycle") or {}).get(name)
        if hook is not None:
            wrong += _handler(
                hook, ("exec", "httpGet", "tcpSocket", "sleep"), spec, f"{path}.lifecycle.{name}"
            )
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        here = f"{path}.{name}"
        wrong += _handler(probe, ("exec", "httpGet", "tcpSocket", "grpc"), spec, here)
        wrong += non_negative(
            probe,
            here,
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        )
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is not None and grace <= 0:
            wrong.append(
                field_invalid(f"{here}.terminationGracePeriodSeconds", grace, "must be greater than 0")
            )
        if name == "readinessProbe":
            if grace is not None:
                text = "must not be set for readinessProbes"
                wrong.append(field_invalid(f"{here}.terminationGracePeriodSeconds", grace, text))
        elif probe.get("successThreshold", 1) != 1:
            wrong.append(field_invalid(f"{here}.successThreshold", probe["successThreshold"], "must be 1"))
    return wrong


def _handler(handler: Object, known: Sequence[str], spec: Object, path: str) -> list[FieldError]:
    given = [each for each in known if handler.get(each) is not None]
    if not given:
        return [field_required(path, "must specify a handler type")]
    action, here = handler[given[0]], f"{path}.{given[0]}"
    wrong: list[FieldError] = []
    if given[0] == "exec":
        if not action.get("command"):
            wrong.append(field_required(f"{here}.command"))
    elif given[0] == "httpGet":
        wrong += port(action.get("port"), f"{here}.port")
        wrong += one_of(action.get("scheme"), f"{here}.scheme", ("HTTP", "HTTPS"))
        for header in action.get("httpHeaders") or ():
            name = header.get("name", "")
            wrong += texts(header_name(name), f"{here}.httpHeaders", name)
    elif given[0] == "sleep":
        grace = spec.get("terminationGracePeriodSeconds", 0)
        if not 0 <= action.get("seconds", 0) <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            wrong.append(field_invalid(here, action.get("seconds", 0), text))
    else:
        wrong += port(action.get("port"), f"{here}.port")
    more = "may not specify more than 1 handler type"
    return wrong + [field_forbidden(f"{path}.{each}", more) for each in given[1:]]
