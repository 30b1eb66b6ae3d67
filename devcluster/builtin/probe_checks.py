"""Validation of a container's probes and lifecycle hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devcluster.builtin.checks import non_negative, one_of, port, texts
from devcluster.errors import FieldError, field_forbidden, field_invalid, field_required
from devcluster.names import header_name

__all__ = ["life"]

Object = Mapping[str, Any]


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
