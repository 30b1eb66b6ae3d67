"""Common checks of validation; each returns the errors of the field at a path."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from devcluster.errors import FieldError, field_forbidden, field_invalid, field_required, field_unsupported
from devcluster.names import label_key, label_value, port_name, port_number
from devcluster.quantity import parse_quantity
from devcluster.storage.selectors import LabelSelector, SelectorError
from devcluster.types.times import canonical

NEGATIVE = "must be greater than or equal to 0"
MAXIMUM_PERCENT = 100


def texts(wrong: Iterable[str], path: str, value: Any) -> list[FieldError]:
    """Return an error for each message of a naming rule."""
    return [field_invalid(path, value, text) for text in wrong]


def required_name(value: str, path: str, rule: Callable[[str], list[str]]) -> list[FieldError]:
    """Check a required name by a naming rule."""
    return texts(rule(value), path, value) if value else [field_required(path)]


def one_of(value: Any, path: str, supported: Sequence[str], *, required: bool = True) -> list[FieldError]:
    """Check a value of an enumeration."""
    if not value:
        return [field_required(path)] if required else []
    return [] if value in supported else [field_unsupported(path, value, supported)]


def non_negative(obj: Mapping[str, Any], path: str, *names: str) -> list[FieldError]:
    """Check that the present numbers are not negative."""
    return [
        field_invalid(f"{path}.{name}", obj[name], NEGATIVE)
        for name in names
        if isinstance(obj.get(name), int) and obj[name] < 0
    ]


def immutable(new: Any, old: Any, path: str) -> list[FieldError]:
    """Check that a value is unchanged."""
    return [] if new == old else [field_invalid(path, new, "field is immutable")]


def port(value: Any, path: str) -> list[FieldError]:
    """Check a port's number or name."""
    if isinstance(value, str):
        return texts(port_name(value), path, value)
    number = value or 0
    return texts(port_number(number), path, number)


def labels(values: Mapping[str, str], path: str) -> list[FieldError]:
    """Check keys and values of labels or of a label selector."""
    wrong = []
    for key, value in values.items():
        wrong += texts(label_key(key), path, key)
        wrong += texts(label_value(value), path, value)
    return wrong


def label_selector(selector: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """Check a label selector: its matchLabels and matchExpressions."""
    if selector is None:
        return []
    wrong = labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        wrong += _requirement(requirement, f"{path}.matchExpressions[{index}]")
    return wrong


def _requirement(requirement: Mapping[str, Any], path: str) -> list[FieldError]:
    wrong = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator in {"In", "NotIn"}:
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            wrong.append(field_required(f"{path}.values", text))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            wrong.append(field_forbidden(f"{path}.values", text))
    else:
        wrong.append(field_invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    wrong += texts(label_key(key), f"{path}.key", key)
    for index, value in enumerate(values):
        wrong += texts(label_value(value), f"{path}.values[{index}]", value)
    return wrong


def selector_matches(selector: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """Return whether a label selector matches labels; an invalid one, whose fault others report, does."""
    try:
        return LabelSelector.of(selector).matches(values)
    except SelectorError:
        return True


def percent_of(value: Any) -> int | None:
    """Return the number of a percentage such as `25%`, or None."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit():
        return int(value[:-1])
    return None


def int_or_percent(value: Any, path: str) -> list[FieldError]:
    """Check a non-negative number or a percentage."""
    if isinstance(value, str):
        if percent_of(value) is not None:
            return []
        text = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [field_invalid(path, value, text)]
    return [field_invalid(path, value, NEGATIVE)] if isinstance(value, int) and value < 0 else []


def at_most_100_percent(value: Any, path: str) -> list[FieldError]:
    """Check that a percentage is at most 100."""
    percent = percent_of(value)
    if percent is None or percent <= MAXIMUM_PERCENT:
        return []
    return [field_invalid(path, value, "must not be greater than 100%")]


def round_up(amounts: dict[str, Any] | None) -> None:
    """Round each amount of a list of resources up to thousandths, in place: no finer ones are kept."""
    for name, amount in (amounts or {}).items():
        if isinstance(amount, str) and amount[-1:] in {"n", "u"}:
            milli = math.ceil(value_of(amount) * 1000)
            amounts[name] = str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"  # type: ignore[index]


def is_whole(quantity: Any) -> bool:
    """Return whether a quantity is a whole number."""
    return value_of(quantity).denominator == 1


def value_of(quantity: Any) -> Fraction:
    """Return the amount; 0 for a value that is no quantity (decoding has refused those already)."""
    return _value(str(quantity))


@functools.lru_cache(maxsize=4096)
def _value(text: str) -> Fraction:
    return parse_quantity(text) or Fraction(0)


def quantity_text(value: Fraction, *, binary: bool) -> str:
    """Return a sum in the form of quantities: with the largest suffix that needs no fraction."""
    if not binary or value.denominator != 1:
        return canonical(f"{math.ceil(value * 1000)}m")
    number = int(value)
    for suffix in ("", "Ki", "Mi", "Gi", "Ti", "Pi"):
        if number % 1024 or not number:
            return f"{number}{suffix}"
        number //= 1024
    return f"{number}Ei"


Object = Mapping[str, Any]

STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
OTHER_RESOURCES = frozenset(
    {
        "configmaps",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
    }
)
"""Standard resources that containers cannot request."""
COUNTED = (
    OTHER_RESOURCES
    - {name for name in OTHER_RESOURCES if name.startswith(("limits.", "requests."))}
    - {"storage"}
)


def resource_requirements(resources: Object, path: str) -> list[FieldError]:
    """Check the names and amounts of limits and requests, and that no request exceeds its limit."""
    wrong: list[FieldError] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, listed in (("limits", limits), ("requests", requests)):
        for name, amount in listed.items():
            here = f"{path}.{part}[{name}]"
            wrong += _resource_name(name, here)
            wrong += amount_errors(name, amount, here)
            if part == "requests" and name in limits and value_of(amount) != value_of(limits[name]):
                wrong += _within(name, amount, limits[name], f"{path}.requests")
    return wrong


def amount_errors(name: str, amount: Any, path: str) -> list[FieldError]:
    """Check an amount: non-negative, and an integer where fractions make no sense."""
    wrong = []
    if value_of(amount) < 0:
        wrong.append(field_invalid(path, amount, "must be greater than or equal to 0"))
    extended = "/" in name and not name.startswith(("kubernetes.io/", "requests."))
    if (extended or name in COUNTED) and not is_whole(amount):
        wrong.append(field_invalid(path, amount, "must be an integer"))
    return wrong


def _within(name: str, amount: Any, limit: Any, path: str) -> list[FieldError]:
    if "/" in name and not name.startswith("kubernetes.io/"):
        return [field_invalid(path, amount, f"must be equal to {name} limit of {limit}")]
    if value_of(amount) > value_of(limit):
        return [field_invalid(path, amount, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _resource_name(name: str, path: str) -> list[FieldError]:
    wrong = texts(label_key(name), path, name)
    if "/" not in name and name not in STANDARD_RESOURCES and not name.startswith("hugepages-"):
        if name not in OTHER_RESOURCES:
            text = "must be a standard resource type or fully qualified"
            wrong.append(field_invalid(path, name, text))
        wrong.append(field_invalid(path, name, "must be a standard resource for containers"))
    return wrong
