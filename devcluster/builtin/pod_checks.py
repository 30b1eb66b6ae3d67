"""Validation of pod specs, in pods and in templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devcluster.builtin.checks import label_selector, labels, one_of, texts
from devcluster.builtin.container_checks import containers, init_containers, local_path, no_backsteps
from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_required,
    field_unsupported,
)
from devcluster.names import config_key, dns_label, dns_subdomain, label_key, label_value
from devcluster.types.table import choices

Object = Mapping[str, Any]

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION_POLICIES = choices("core.v1.PodSpec.preemptionPolicy")
UNSATISFIABLE = choices("core.v1.TopologySpreadConstraint.whenUnsatisfiable")
EFFECTS = choices("core.v1.Toleration.effect")
NODE_OPERATORS = choices("core.v1.NodeSelectorRequirement.operator")
MAXIMUM_SECONDS = 2**31 - 1
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


def pod_template(template: Object, path: str) -> list[FieldError]:
    """Check a workload's pod template."""
    metadata = template.get("metadata") or {}
    wrong = labels(metadata.get("labels") or {}, f"{path}.labels")
    for key in metadata.get("annotations") or ():
        wrong += texts(label_key(key.lower()), f"{path}.annotations", key)
    return wrong + pod_spec(template.get("spec") or {}, f"{path}.spec")


def pod_spec(spec: Object, path: str) -> list[FieldError]:
    """Check a pod spec that has its defaults."""
    volumes, wrong = _volumes(spec.get("volumes") or (), f"{path}.volumes")
    wrong += containers(spec, volumes, f"{path}.containers")
    if spec.get("initContainers"):
        wrong += init_containers(spec, volumes, f"{path}.initContainers")
    wrong += one_of(spec.get("restartPolicy"), f"{path}.restartPolicy", RESTART_POLICIES)
    wrong += one_of(spec.get("dnsPolicy"), f"{path}.dnsPolicy", DNS_POLICIES)
    wrong += labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    if spec.get("affinity"):
        wrong += _affinity(spec["affinity"], f"{path}.affinity")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType", "")
        wrong += texts(label_key(kind), f"{path}.readinessGates[{index}].conditionType", kind)
    if spec.get("topologySpreadConstraints"):
        wrong += _spread(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints")
    for field, rule in NAMED:
        if spec.get(field):
            wrong += texts(rule(spec[field]), f"{path}.{field}", spec[field])
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAXIMUM_SECONDS:
        text = f"must be between 1 and {MAXIMUM_SECONDS}, inclusive"
        wrong.append(field_invalid(f"{path}.activeDeadlineSeconds", deadline, text))
    wrong += _tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    policy = spec.get("preemptionPolicy")
    return wrong + one_of(policy, f"{path}.preemptionPolicy", PREEMPTION_POLICIES, required=False)


def _volumes(volumes: Sequence[Object], path: str) -> tuple[set[str], list[FieldError]]:
    names: set[str] = set()
    wrong: list[FieldError] = []
    for index, volume in enumerate(volumes):
        here = f"{path}[{index}]"
        bad = _source(volume, here)
        name = volume.get("name", "")
        bad += texts(dns_label(name), f"{here}.name", name) if name else [field_required(f"{here}.name")]
        if name in names:
            bad.append(field_duplicate(f"{here}.name", name))
        if not bad:
            names.add(name)
        wrong += bad
    return names, wrong


def _source(volume: Object, path: str) -> list[FieldError]:
    given = [name for name, value in volume.items() if name != "name" and value is not None]
    if not given:
        return [field_required(path, "must specify a volume type")]
    wrong: list[FieldError] = []
    first, source = given[0], volume[given[0]]
    here = f"{path}.{first}"
    required = {
        "secret": "secretName",
        "configMap": "name",
        "persistentVolumeClaim": "claimName",
        "hostPath": "path",
    }
    name = required.get(first)
    if name and not source.get(name):
        wrong.append(field_required(f"{here}.{name}"))
    elif first == "hostPath":
        wrong += no_backsteps(source["path"], f"{here}.path")
    mode = source.get("defaultMode")
    if mode is not None and not 0 <= mode <= MAXIMUM_MODE:
        text = "must be a number between 0 and 0777 (octal), both inclusive"
        wrong.append(field_invalid(f"{here}.defaultMode", mode, text))
    if first in {"secret", "configMap"}:
        for index, item in enumerate(source.get("items") or ()):
            wrong += _key_to_path(item, f"{here}.items[{index}]")
    more = "may not specify more than 1 volume type"
    return wrong + [field_forbidden(f"{path}.{each}", more) for each in given[1:]]


def _key_to_path(item: Object, path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    if not item.get("key"):
        wrong.append(field_required(f"{path}.key"))
    elif bad := config_key(item["key"]):
        wrong += texts(bad, f"{path}.key", item["key"])
    if not item.get("path"):
        wrong.append(field_required(f"{path}.path"))
    else:
        wrong += local_path(item["path"], f"{path}.path")
    return wrong


def _tolerations(tolerations: Sequence[Object], path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    for index, each in enumerate(tolerations):
        here = f"{path}[{index}]"
        key, operator, effect = each.get("key", ""), each.get("operator", ""), each.get("effect", "")
        if key:
            wrong += texts(label_key(key), f"{here}.key", key)
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            wrong.append(field_invalid(f"{here}.operator", operator, text))
        if each.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            wrong.append(field_invalid(f"{here}.effect", effect, text))
        value = each.get("value", "")
        if operator in {"", "Equal"}:
            bad = label_value(value)
            wrong += [field_invalid(f"{here}.operator", value, ";".join(bad))] if bad else []
        elif operator == "Exists":
            if value:
                text = "value must be empty when `operator` is 'Exists'"
                wrong.append(field_invalid(f"{here}.operator", value, text))
        else:
            wrong.append(field_unsupported(f"{here}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in EFFECTS:
            shown = ("NoSchedule", "PreferNoSchedule", "NoExecute")
            wrong.append(field_unsupported(f"{here}.effect", effect, shown))
    return wrong


def _spread(constraints: Sequence[Object], path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    for index, each in enumerate(constraints):
        here = f"{path}[{index}]"
        if each.get("maxSkew", 0) <= 0:
            wrong.append(
                field_invalid(f"{here}.maxSkew", each.get("maxSkew", 0), "must be greater than zero")
            )
        if not each.get("topologyKey"):
            wrong.append(field_required(f"{here}.topologyKey", "can not be empty"))
        wrong += (
            []
            if each.get("whenUnsatisfiable") in UNSATISFIABLE
            else [
                field_unsupported(
                    f"{here}.whenUnsatisfiable", each.get("whenUnsatisfiable", ""), UNSATISFIABLE
                )
            ]
        )
        wrong += label_selector(each.get("labelSelector"), f"{here}.labelSelector")
    return wrong


def _affinity(affinity: Object, path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    here = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    if required is not None:
        terms = required.get("nodeSelectorTerms") or ()
        if not terms:
            text = "must have at least one node selector term"
            wrong.append(field_required(f"{here}.nodeSelectorTerms", text))
        for index, term in enumerate(terms):
            wrong += _node_term(term, f"{here}.nodeSelectorTerms[{index}]")
    for name in ("podAffinity", "podAntiAffinity"):
        wrong += _pod_affinity(affinity.get(name) or {}, f"{path}.{name}")
    return wrong


def _node_term(term: Object, path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    for index, each in enumerate(term.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = each.get("operator", ""), each.get("values") or ()
        if operator in {"In", "NotIn"} and not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            wrong.append(field_required(f"{here}.values", text))
        elif operator in {"Exists", "DoesNotExist"} and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            wrong.append(field_forbidden(f"{here}.values", text))
        elif operator in {"Gt", "Lt"} and len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            wrong.append(field_required(f"{here}.values", text))
        elif operator not in NODE_OPERATORS:
            wrong.append(field_invalid(f"{here}.operator", operator, "not a valid selector operator"))
        wrong += texts(label_key(each.get("key", "")), f"{here}.key", each.get("key", ""))
    return wrong


def _pod_affinity(affinity: Object, path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    terms = [(f"{path}.{required}[{index}]", term) for index, term in enumerate(affinity.get(required) or ())]
    for index, weighted in enumerate(affinity.get(preferred) or ()):
        here = f"{path}.{preferred}[{index}]"
        if not 1 <= weighted.get("weight", 0) <= MAXIMUM_WEIGHT:
            text = "must be in the range 1-100"
            wrong.append(field_invalid(f"{here}.weight", weighted.get("weight", 0), text))
        terms.append((f"{here}.podAffinityTerm", weighted.get("podAffinityTerm") or {}))
    for here, term in terms:
        wrong += label_selector(term.get("labelSelector"), f"{here}.labelSelector")
        key = term.get("topologyKey", "")
        if not key:
            wrong.append(field_required(f"{here}.topologyKey", "can not be empty"))
        wrong += texts(label_key(key), f"{here}.topologyKey", key)
    return wrong
