"""Limits on the estimated cost of rules: of each rule, and of all rules of a schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from devcluster.errors import FieldError, field_forbidden
from devcluster.schema.cel.cost import UNLIMITED

__all__ = ["CRD_LIMIT", "RULE_LIMIT", "Costs", "multiplied", "occurrences"]

RULE_LIMIT: Final = 10_000_000
CRD_LIMIT: Final = 100_000_000
_REQUEST: Final = 3 * 1024 * 1024
_MOST_NAMED = 4
_MUCH = 100.0
_LITTLE = 1.5
_ADVICE = (
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and "
    "strings are declared"
)


def multiplied(source: Mapping[str, Any], count: int | None) -> int | None:
    """Return how often what is below a node may occur, given the count of the node; None without a bound."""
    if source.get("type") == "array":
        most = source.get("maxItems")
    elif source.get("type") == "object" and source.get("additionalProperties") is not None:
        most = source.get("maxProperties")
    else:
        return count
    return None if count is None or most is None else min(count * max(most, 0), UNLIMITED)


def occurrences(count: int | None, min_size: int) -> int:
    """Return how often a value may occur: without a bound, as often as it fits into a request."""
    return _REQUEST // (min_size + 1) if count is None else count


@dataclasses.dataclass(slots=True)
class Costs:
    """The costs of the rules of one schema, by field."""

    limit_each: bool = True
    """Whether the limit on a single rule applies; it does not for schemas that are stored already."""
    total: int = 0
    by_field: list[tuple[str, int]] = dataclasses.field(default_factory=list)

    def rule(self, field: str, cost: int, count: int) -> Iterator[FieldError]:
        """Add the cost of a rule that runs `count` times."""
        yield from self._add(field, "estimated rule cost", min(cost * count, UNLIMITED))

    def message(self, field: str, cost: int) -> Iterator[FieldError]:
        """Add the cost of a messageExpression."""
        yield from self._add(field, "estimated messageExpression cost", cost)

    def _add(self, field: str, name: str, cost: int) -> Iterator[FieldError]:
        self.total = min(self.total + cost, UNLIMITED)
        self.by_field.append((field, cost))
        if self.limit_each and cost > RULE_LIMIT:
            yield field_forbidden(field, _exceeded(name, cost, RULE_LIMIT))

    def together(self, field: str) -> Iterator[FieldError]:
        """Name the rules that cost most if all together cost too much."""
        if self.total <= CRD_LIMIT:
            return
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        large = [each for each in self.by_field if each[1] >= CRD_LIMIT // 100]
        for each, _ in sorted(large, key=lambda each: -each[1])[:_MOST_NAMED]:
            yield field_forbidden(each, text)
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield field_forbidden(field, _exceeded(name, self.total, CRD_LIMIT))


def _exceeded(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100" if factor > _MUCH else f"{factor:.6f}" if factor < _LITTLE else f"{factor:.1f}"
    return f"{name} exceeds budget by factor of {shown}x ({_ADVICE})"
