"""Label selectors, as kubectl writes them."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Requirement", "Selector"]


class Operator(enum.Enum):
    """How a requirement compares a label with its values."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    NOT_EXISTS = "!"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when the labels meet the condition; a label that is not there is "not in" any values."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.NOT_EXISTS:
                return self.key not in labels

    @property
    def equals(self) -> str | None:
        """The one value the label must have, or None when the condition is another."""
        if self.operator is Operator.IN and len(self.values) == 1:
            return next(iter(self.values))
        return None

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.NOT_EXISTS:
                return f"!{self.key}"
            case _ if self.equals is not None:
                return f"{self.key}={self.equals}"
            case _:
                return f"{self.key} {self.operator.value} ({','.join(sorted(self.values))})"


_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_KEY = rf"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_NAME}"
_VALUE = rf"({_NAME})?"
_REQUIREMENT = re.compile(
    rf"""\s*(
      (?P<absent>!)\s*(?P<absent_key>{_KEY})
    | (?P<key>{_KEY})(
        \s*(?P<comparison>==|=|!=)\s*(?P<value>{_VALUE})
      | \s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)
      )?
    )\s*(?P<end>,|$)""",
    re.VERBOSE,
)
_VALUE_ONLY = re.compile(_VALUE)


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all be met; without any, everything matches."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read `app=web,tier!=cache,env in (a,b),env notin (c),owner,!legacy`.

        Raises ValueError, which names the text at fault.
        """
        if not text.strip():
            return cls()
        requirements = []
        position, more = 0, True
        while more:
            match = _REQUIREMENT.match(text, position)
            if match is None:
                raise ValueError(f"not a label selector: {text!r}, at {text[position:]!r}")
            requirements.append(_requirement(match, text))
            position, more = match.end(), match["end"] == ","
        return cls(tuple(requirements))

    def split(self) -> tuple[dict[str, str], tuple[Requirement, ...]]:
        """The labels that have to be equal, which an index can answer, and the other requirements."""
        equal: dict[str, str] = {}
        others = []
        for requirement in self.requirements:
            value = requirement.equals
            # Of two values that one label should have, the second is not for the index: nothing has both.
            if value is None or requirement.key in equal:
                others.append(requirement)
            else:
                equal[requirement.key] = value
        return equal, tuple(others)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when the labels meet every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


def _requirement(match: re.Match[str], text: str) -> Requirement:
    if match["absent"]:
        return Requirement(match["absent_key"], Operator.NOT_EXISTS)
    if match["comparison"]:
        operator = Operator.NOT_IN if match["comparison"] == "!=" else Operator.IN
        return Requirement(match["key"], operator, frozenset((match["value"],)))
    if match["word"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        for value in values:
            if not _VALUE_ONLY.fullmatch(value):
                raise ValueError(f"not a label selector: {text!r}: {value!r} cannot be a label's value")
        return Requirement(match["key"], Operator(match["word"]), values)
    return Requirement(match["key"], Operator.EXISTS)
