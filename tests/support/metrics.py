"""HTTP GET requests, and metrics as a Prometheus server reads them."""

from __future__ import annotations

import functools
import re
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


class Samples:
    """Metrics in the text exposition format; a query parses only the lines that it needs.

    An invalid line raises ValueError when it is parsed.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    @functools.cached_property
    def all(self) -> list[Sample]:
        return _parse(self._text)

    def select(self, name: str, /, **labels: str) -> list[Sample]:
        """Return every sample of the metric `name` that has at least these labels."""
        lines = [line for line in self._text.splitlines(keepends=True) if line.startswith(name)]
        return [
            sample
            for sample in _parse("".join(lines))
            if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
        ]

    def value(self, name: str, /, **labels: str) -> float:
        """Return the sum of the samples that `select` returns; 0 if there are none."""
        return sum(sample.value for sample in self.select(name, **labels))

    def names(self) -> set[str]:
        return {sample.name for sample in self.all}


def _parse(text: str) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def get(
    url: str,
    *,
    accept: str = "*/*",
    token: str | None = None,
    context: ssl.SSLContext | None = None,
    timeout: float = 20.0,
) -> tuple[int, str]:
    """Return the status and body of a GET request; raise OSError when no server answers."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=timeout, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


PAGE = Path("docs/metrics.md")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| (.+) \|$", re.MULTILINE)
Family = tuple[str, tuple[str, ...]]


def documented() -> list[tuple[str, Family]]:
    """Return the metric families that the documentation lists; counter names end with `_total`."""
    rows = ROW.findall(PAGE.read_text())
    return [(name, (kind, tuple(re.findall(r"`(\w+)`", labels)))) for name, kind, labels, _ in rows]
