"""Validation of pod specs, in pods and in templates: containers, volumes, and scheduling."""

from __future__ import annotations

from collections.abc import Collection

from devcluster.builtin.checks import (
    check_labels,
    check_port,
    check_requirement,
    check_resources,
    check_selector,
)
from devcluster.kinds.field import Field
from devcluster.names import (
    config_key,
    dns_label,
    dns_subdomain,
    environment_name,
    header_name,
    label_key,
    label_value,
    port_name,
    port_number,
)
from devcluster.quantity import parse_integer
from devcluster.types.table import choices

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
COSTS = range(-(2**31), 2**31)
MAXIMUM_SECONDS = 2**31 - 1
MAXIMUM_ID = 2**31 - 1
MAXIMUM_MODE = 0o777
MAXIMUM_WEIGHT = 100
NAMED = (
    ("serviceAccountName", dns_subdomain),
    ("nodeName", dns_subdomain),
    ("hostname", dns_label),
    ("subdomain", dns_label),
    ("priorityClassName", dns_subdomain),
    ("runtimeClassName", dns_subdomain),
)
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
VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
PROBE_NUMBERS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
REQUIRED_OF_VOLUMES = {
    "secret": "secretName",
    "configMap": "name",
    "persistentVolumeClaim": "claimName",
    "hostPath": "path",
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_template(template: Field) -> None:
    """Check a workload's pod template."""
    metadata = template.get("metadata") or {}
    check_labels(Field(metadata.get("labels"), "labels", template))
    for key in metadata.get("annotations") or ():
        annotations = Field(key, "annotations", template)
        for text in label_key(key.lower()):
            annotations.invalid(text)
    check_deletion_cost(Field(metadata.get("annotations"), "annotations", template))
    check_pod_spec(template["spec"])


def check_deletion_cost(annotations: Field) -> None:
    """Check the annotation with the deletion cost of a pod, which has no plus sign and no leading zeros."""
    text = annotations.get(DELETION_COST)
    if text is None:
        return
    cost = None if text[:1] in {"+", "0"} - {text} else parse_integer(text)
    if cost is None or cost not in COSTS:
        annotations.key(DELETION_COST, text).invalid("must be a 32bit integer")


def check_pod_spec(spec: Field) -> None:
    """Check a pod spec whose defaults are already filled in."""
    volumes = _check_volumes(spec["volumes"])
    names: set[str] = set()
    if not spec["containers"]:
        spec["containers"].required()
    for each in spec["containers"]:
        _check_container(each, volumes)
        each.at("name", "").check_unique(names)
        _check_life(each, spec)
        each["restartPolicy"].any_of(choices("core.v1.PodSpec.restartPolicy"))
    _check_host_ports(spec["containers"])
    for each in spec["initContainers"]:
        _check_init_container(each, spec, volumes, names)
    spec["restartPolicy"].one_of(RESTART_POLICIES)
    spec["dnsPolicy"].one_of(DNS_POLICIES)
    check_labels(spec["nodeSelector"])
    if spec["affinity"]:
        _check_affinity(spec["affinity"])
    for gate in spec["readinessGates"]:
        gate.at("conditionType", "").check(label_key)
    for each in spec["topologySpreadConstraints"]:
        _check_spread(each)
    for name, rule in NAMED:
        spec[name].check_given(rule)
    deadline = spec["activeDeadlineSeconds"]
    if deadline.is_set and not 1 <= deadline.value <= MAXIMUM_SECONDS:
        deadline.invalid(f"must be between 1 and {MAXIMUM_SECONDS}, inclusive")
    for each in spec["tolerations"]:
        _check_toleration(each)
    if spec["preemptionPolicy"]:
        spec["preemptionPolicy"].any_of(choices("core.v1.PodSpec.preemptionPolicy"))


def _check_init_container(container: Field, spec: Field, volumes: Collection[str], names: set[str]) -> None:
    _check_container(container, volumes)
    container["restartPolicy"].any_of(choices("core.v1.PodSpec.restartPolicy"))
    name = container.at("name", "")
    if name or name.value in names:
        name.check_unique(names)
    # The server's message counts each init container as the first one.
    _check_host_ports(Field([container.value], "initContainers", spec))
    if container.get("restartPolicy") == "Always":
        _check_life(container, spec)
    else:
        for each in container.given("lifecycle", *PROBES):
            container[each].forbidden("may not be set for init containers without restartPolicy=Always")


def _check_container(container: Field, volumes: Collection[str]) -> None:
    container["name"].check_required(dns_label)
    if not container["image"]:
        container["image"].required()
    container["terminationMessagePolicy"].one_of(MESSAGE_POLICIES)
    names: set[str] = set()
    for port in container["ports"]:
        if port["name"] and port["name"].check(port_name):
            port["name"].check_unique(names)
        names.add(port.get("name"))
        port["containerPort"].check_required(port_number)
        port["hostPort"].check_given(port_number)
        port["protocol"].one_of(choices("core.v1.ContainerPort.protocol"))
    for variable in container["env"]:
        variable["name"].check_required(environment_name)
        if variable["valueFrom"].is_set:
            _check_value_from(variable["valueFrom"], variable)
    for source in container["envFrom"]:
        _check_environment_source(source, container["envFrom"])
    _check_mounts(container["volumeMounts"], volumes)
    container["imagePullPolicy"].one_of(choices("core.v1.Container.imagePullPolicy"))
    check_resources(container["resources"])
    context = container["securityContext"]
    for name in ("runAsUser", "runAsGroup"):
        if not 0 <= context.get(name, 0) <= MAXIMUM_ID:
            context[name].invalid(f"must be between 0 and {MAXIMUM_ID}, inclusive")
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        context.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")


def _check_host_ports(containers: Field) -> None:
    taken: set[str] = set()
    for container in containers:
        for each in container["ports"]:
            host = each["hostPort"]
            if host:
                shown = f"{each.get('protocol', '')}/{each.get('hostIP', '')}/{host.value}"
                if shown in taken:
                    host.duplicate(shown)
                taken.add(shown)


def _check_value_from(source: Field, variable: Field) -> None:
    given = source.given(*VALUE_SOURCES)
    if "fieldRef" in given:
        _check_field_reference(source["fieldRef"])
    if "resourceFieldRef" in given:
        resource = source["resourceFieldRef"]["resource"]
        if not resource:
            resource.required()
        elif ".hugepages-" not in resource.value:
            resource.any_of(RESOURCE_FIELDS)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in given:
            source[name].at("name", "").check(dns_subdomain)
            source[name]["key"].check_required(config_key)
    if not given:
        source.invalid(
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
            "`fileKeyRef`",
            "",
        )
    elif variable["value"]:
        source.invalid("may not be specified when `value` is not empty", "")
    elif len(given) > 1:
        source.invalid("may not have more than one field specified at a time", "")


def _check_field_reference(reference: Field) -> None:
    """Check a `fieldRef` of the downward API, which exposes a field of the pod to a container."""
    path = reference["fieldPath"]
    if not path:
        path.required()
        return
    base, bracket, key = path.value.partition("[")
    if bracket and key.startswith("'") and key.endswith("']"):
        if base not in {"metadata.annotations", "metadata.labels"}:
            reference.invalid("does not support subscript", base)
        else:
            reference.check(label_key, key[1:-2].lower() if base == "metadata.annotations" else key[1:-2])
    elif path.value in {"metadata.annotations", "metadata.labels"}:
        path.unsupported(FIELD_PATHS)
    elif path.value not in FIELD_PATHS:
        path.invalid(f"error converting fieldPath: field label not supported: {path.value}")


def _check_environment_source(source: Field, sources: Field) -> None:
    source["prefix"].check_given(environment_name)
    given = source.given("configMapRef", "secretRef")
    for name in given:
        source[name]["name"].check_required(lambda value: dns_subdomain(value, prefix=True))
    if not given:
        sources.invalid("must specify one of: `configMapRef` or `secretRef`", "")
    elif len(given) > 1:
        sources.invalid("may not have more than one field specified at a time", "")


def _check_mounts(mounts: Field, volumes: Collection[str]) -> None:
    points: set[str] = set()
    for mount in mounts:
        name, point = mount.at("name", ""), mount.at("mountPath", "")
        if not name:
            name.required()
        if name.value not in volumes:
            name.not_found()
        if not point:
            point.required()
        if point.value in points:
            point.invalid("must be unique")
        points.add(point.value)
        for part in ("subPath", "subPathExpr"):
            if mount[part]:
                _check_local_path(Field(mount.get(part), part, mounts))
        if mount["subPath"] and mount["subPathExpr"]:
            mount["subPathExpr"].invalid("subPathExpr and subPath are mutually exclusive")


def _check_local_path(path: Field) -> None:
    if path.value.startswith("/"):
        path.invalid("must be a relative path")
    _check_no_backsteps(path)


def _check_no_backsteps(path: Field) -> None:
    if ".." in path.value.split("/"):
        path.invalid("must not contain '..'")


def _check_life(container: Field, spec: Field) -> None:
    """Check a container's lifecycle hooks and probes; `spec` is the pod's spec."""
    for name in container["lifecycle"].given("postStart", "preStop"):
        _check_handler(container["lifecycle"][name], ("exec", "httpGet", "tcpSocket", "sleep"), spec)
    for name in container.given(*PROBES):
        probe = container[name]
        _check_handler(probe, ("exec", "httpGet", "tcpSocket", "grpc"), spec)
        probe.not_negative(*PROBE_NUMBERS)
        grace = probe["terminationGracePeriodSeconds"]
        if grace.is_set and grace.value <= 0:
            grace.invalid("must be greater than 0")
        if name == "readinessProbe":
            if grace.is_set:
                grace.invalid("must not be set for readinessProbes")
        elif probe.get("successThreshold", 1) != 1:
            probe["successThreshold"].invalid("must be 1")


def _check_handler(handler: Field, known: tuple[str, ...], spec: Field) -> None:
    given = handler.given(*known)
    if not given:
        handler.required("must specify a handler type")
        return
    first, action = given[0], handler[given[0]]
    if first == "exec":
        if not action["command"]:
            action["command"].required()
    elif first == "sleep":
        grace, seconds = spec.get("terminationGracePeriodSeconds", 0), action.get("seconds", 0)
        if not 0 <= seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            action.invalid(text, seconds)
    else:
        check_port(action.at("port", 0))
    if first == "httpGet":
        action["scheme"].one_of(("HTTP", "HTTPS"))
        for header in action["httpHeaders"]:
            action["httpHeaders"].check(header_name, header.get("name", ""))
    for name in given[1:]:
        handler[name].forbidden("may not specify more than 1 handler type")


def _check_volumes(volumes: Field) -> set[str]:
    """Check the volumes, and return the names of those without errors."""
    names: set[str] = set()
    for volume in volumes:
        before = len(volumes.errors)
        _check_source(volume)
        volume["name"].check_required(dns_label)
        if volume.get("name") in names:
            volume["name"].duplicate()
        if len(volumes.errors) == before:
            names.add(volume.get("name"))
    return names


def _check_source(volume: Field) -> None:
    given = volume.given(*(name for name in volume.value if name != "name"))
    if not given:
        volume.required("must specify a volume type")
        return
    source, required = volume[given[0]], REQUIRED_OF_VOLUMES.get(given[0], "")
    if required and not source[required]:
        source[required].required()
    elif given[0] == "hostPath":
        _check_no_backsteps(source["path"])
    mode = source["defaultMode"]
    if mode.is_set and not 0 <= mode.value <= MAXIMUM_MODE:
        mode.invalid("must be a number between 0 and 0777 (octal), both inclusive")
    for item in source["items"] if given[0] in {"secret", "configMap"} else ():
        item["key"].check_required(config_key)
        if item["path"]:
            _check_local_path(item["path"])
        else:
            item["path"].required()
    for name in given[1:]:
        volume[name].forbidden("may not specify more than 1 volume type")


def _check_toleration(toleration: Field) -> None:
    key, operator, effect, value = (
        toleration.at(name, "") for name in ("key", "operator", "effect", "value")
    )
    if key:
        key.check(label_key)
    elif operator.value != "Exists":
        operator.invalid(
            'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        )
    if toleration["tolerationSeconds"].is_set and effect.value != "NoExecute":
        effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator.value in {"", "Equal"}:
        if wrong := label_value(value.value):
            operator.invalid(";".join(wrong), value.value)
    elif operator.value == "Exists":
        if value:
            operator.invalid("value must be empty when `operator` is 'Exists'", value.value)
    else:
        operator.unsupported(("Equal", "Exists"))
    if effect:
        effect.any_of(EFFECTS)


def _check_spread(constraint: Field) -> None:
    skew, key = constraint.at("maxSkew", 0), constraint["topologyKey"]
    if skew.value <= 0:
        skew.invalid("must be greater than zero")
    if not key:
        key.required("can not be empty")
    constraint.at("whenUnsatisfiable", "").any_of(
        choices("core.v1.TopologySpreadConstraint.whenUnsatisfiable")
    )
    check_selector(constraint["labelSelector"])


def _check_affinity(affinity: Field) -> None:
    required = affinity["nodeAffinity"][REQUIRED]
    if required.is_set:
        terms = required["nodeSelectorTerms"]
        if not terms:
            terms.required("must have at least one node selector term")
        for term in terms:
            for each in term["matchExpressions"]:
                check_requirement(each, choices("core.v1.NodeSelectorRequirement.operator"))
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity[name]
        for each in pods[PREFERRED]:
            weight = each.at("weight", 0)
            if not 1 <= weight.value <= MAXIMUM_WEIGHT:
                weight.invalid("must be in the range 1-100")
        for term in (*pods[REQUIRED], *(each["podAffinityTerm"] for each in pods[PREFERRED])):
            check_selector(term["labelSelector"])
            key = term.at("topologyKey", "")
            if not key:
                key.required("can not be empty")
            key.check(label_key)
