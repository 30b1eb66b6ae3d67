"""Common checks of fields, and the arithmetic of quantities."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from devcluster.kinds.field import NEGATIVE, Field
from devcluster.names import label_key, label_value, port_name, port_number
from devcluster.quantity import parse_integer, parse_quantity
from devcluster.storage.selectors import LabelSelector, SelectorError
from devcluster.types.times import canonical

SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
MAXIMUM_PERCENT = 100


def check_port(port: Field) -> None:
    """Check a port's number or name."""
    port.check(port_name if isinstance(port.value, str) else port_number)


def check_labels(labels: Field) -> None:
    """Check keys and values of labels or of a label selector."""
    for key, value in (labels.value or {}).items():
        labels.check(label_key, key)
        labels.check(label_value, value)


def check_selector(selector: Field) -> None:
    """Check a label selector, if present, with its matchLabels and matchExpressions."""
    check_labels(selector["matchLabels"])
    for each in selector["matchExpressions"]:
        check_requirement(each)
        for value in each["values"]:
            value.check(label_value)


def check_requirement(requirement: Field, supported: Sequence[str] = SELECTOR_OPERATORS) -> None:
    """Check operator, number of values and key of a selector's requirement."""
    operator, values = requirement.at("operator", ""), requirement["values"]
    if operator.value in {"In", "NotIn"} and not values:
        values.required("must be specified when `operator` is 'In' or 'NotIn'")
    elif operator.value in {"Exists", "DoesNotExist"} and values:
        values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator.value in {"Gt", "Lt"} & {*supported} and len(values.value or ()) != 1:
        values.required("must be specified single value when `operator` is 'Lt' or 'Gt'")
    elif operator.value not in supported:
        operator.invalid("not a valid selector operator")
    requirement.at("key", "").check(label_key)


def selector_matches(selector: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """Return whether a label selector matches; True for an invalid selector, which other checks report."""
    try:
        return LabelSelector.of(selector).matches(values)
    except SelectorError:
        return True


def percent_of(value: Any) -> int | None:
    """Return the number in a percentage such as `25%`, or None if `value` is not a percentage."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit():
        return parse_integer(value[:-1])
    return None


def check_int_or_percent(field: Field) -> None:
    """Check that a value is a non-negative number or a percentage."""
    value = field.value
    if isinstance(value, int) and value < 0:
        field.invalid(NEGATIVE)
    elif isinstance(value, str) and percent_of(value) is None:
        field.invalid(
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )


def check_at_most_all(field: Field) -> None:
    """Check that a percentage is at most 100."""
    if (percent_of(field.value) or 0) > MAXIMUM_PERCENT:
        field.invalid("must not be greater than 100%")


def round_up(amounts: dict[str, Any] | None) -> None:
    """Round each amount up to whole thousandths, in place, as Kubernetes does."""
    for name, amount in (amounts or {}).items():
        if isinstance(amount, str) and amount[-1:] in {"n", "u"}:
            milli = math.ceil(value_of(amount) * 1000)
            amounts[name] = str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"  # type: ignore[index]


def is_whole(quantity: Any) -> bool:
    """Return whether a quantity is a whole number."""
    return value_of(quantity).denominator == 1


def value_of(quantity: Any) -> Fraction:
    """Return the amount of a quantity; 0 for an invalid text, which decoding has already refused."""
    return _value(str(quantity))


@functools.lru_cache(maxsize=4096)
def _value(text: str) -> Fraction:
    return parse_quantity(text) or Fraction(0)


def quantity_text(value: Fraction, *, binary: bool) -> str:
    """Return a sum as a quantity with the largest suffix that needs no fraction: Ki, Mi, ... if `binary`."""
    if not binary or value.denominator != 1:
        return canonical(f"{math.ceil(value * 1000)}m")
    number = int(value)
    for suffix in ("", "Ki", "Mi", "Gi", "Ti", "Pi"):
        if number % 1024 or not number:
            return f"{number}{suffix}"
        number //= 1024
    return f"{number}Ei"


STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
COUNTED = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
"""Standard resources that count objects."""
OTHER_RESOURCES = COUNTED | {
    "requests.storage",
    "storage",
    *(f"{part}.{name}" for part in ("limits", "requests") for name in STANDARD_RESOURCES),
}
"""Standard resources that containers cannot request."""


def check_resources(resources: Field) -> None:
    """Check names and amounts of limits and requests, and that no request exceeds its limit."""
    limits = resources.get("limits") or {}
    for part in ("limits", "requests"):
        listed = resources[part]
        for name, value in (listed.value or {}).items():
            amount = listed.key(name, value)
            _check_resource_name(amount, name)
            check_amount(amount, name)
            if part == "limits" or name not in limits or value_of(value) == value_of(limits[name]):
                continue
            if "/" in name and not name.startswith("kubernetes.io/"):
                listed.invalid(f"must be equal to {name} limit of {limits[name]}", value)
            elif value_of(value) > value_of(limits[name]):
                listed.invalid(f"must be less than or equal to {name} limit of {limits[name]}", value)


def check_amount(amount: Field, name: str) -> None:
    """Check that an amount is not negative and, if the resource `name` requires it, that it is an integer."""
    if value_of(amount.value) < 0:
        amount.invalid(NEGATIVE)
    extended = "/" in name and not name.startswith(("kubernetes.io/", "requests."))
    if (extended or name in COUNTED) and not is_whole(amount.value):
        amount.invalid("must be an integer")


def _check_resource_name(amount: Field, name: str) -> None:
    amount.check(label_key, name)
    if "/" not in name and name not in STANDARD_RESOURCES and not name.startswith("hugepages-"):
        if name not in OTHER_RESOURCES:
            amount.invalid("must be a standard resource type or fully qualified", name)
        amount.invalid("must be a standard resource for containers", name)
