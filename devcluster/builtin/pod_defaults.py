"""Defaults of pod specs, in pods and in templates."""

from __future__ import annotations

from typing import Any

from devcluster.builtin.fields import child
from devcluster.builtin.quantity import round_up

__all__ = ["default_pod", "default_pod_spec"]

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
