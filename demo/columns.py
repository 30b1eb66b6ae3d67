"""The columns that `kubectl get` shows for custom resources, from their CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from devcluster.crd.json_path import cell
from devcluster.kinds.resource import Column

__all__ = ["Columns"]

TRUTHS = frozenset({"True", "False", "Unknown"})


class Columns:
    """The printer columns of the kinds that CustomResourceDefinitions define."""

    def __init__(self, crds: Iterable[dict[str, Any]]) -> None:
        self._of: dict[str, list[Column]] = {}
        self._kinds: set[str] = set()
        for crd in crds:
            version = next(each for each in crd["spec"]["versions"] if each["storage"])
            self._kinds.add(crd["spec"]["names"]["kind"])
            self._of[crd["spec"]["names"]["plural"]] = [
                Column(each["name"], each["type"], json_path=each["jsonPath"])
                for each in version.get("additionalPrinterColumns") or ()
                if each["type"] != "date"
            ]

    def __contains__(self, plural: str) -> bool:
        return plural in self._of

    def defines(self, kind: str) -> bool:
        """Return whether one of the CustomResourceDefinitions defines this kind."""
        return kind in self._kinds

    def read(self, plural: str, obj: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the non-empty columns as (name, text), without columns that repeat a condition."""
        shown = []
        for column in self._of.get(plural, ()):
            value = cell(obj, column)
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if value is not None and text and text not in TRUTHS:
                shown.append((column.name, text))
        return shown
