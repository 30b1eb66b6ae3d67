"""Metrics as a Prometheus server would read them."""

from __future__ import annotations

import dataclasses
from typing import Self

from prometheus_client.parser import text_string_to_metric_families


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One line: a name, its labels and its value."""

    name: str
    labels: dict[str, str]
    value: float


class Samples:
    """One scrape."""

    def __init__(self, samples: list[Sample]) -> None:
        self.all = samples

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text exposition format.

        Raises:
            ValueError: a line is not valid.
        """
        return cls(
            [
                Sample(sample.name, sample.labels, sample.value)
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            ]
        )

    def select(self, name: str, /, **labels: str) -> list[Sample]:
        """Every sample of that name that has these labels (and maybe more)."""
        return [
            sample
            for sample in self.all
            if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
        ]

    def value(self, name: str, /, **labels: str) -> float:
        """The sum over `select`; 0 when there is none."""
        return sum(sample.value for sample in self.select(name, **labels))

    def names(self) -> set[str]:
        """The names of all samples."""
        return {sample.name for sample in self.all}
