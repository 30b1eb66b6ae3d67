"""Warnings that the API server sends along with an answer, such as that an API is deprecated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from manager.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = get_logger("kube")

_REMEMBERED = 256
"""Warnings that are told once; beyond so many different ones, they may be told again."""

# The code, who warns (never anybody of interest), and the text in quotes; several are separated by commas.
_warning = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class ServerWarnings:
    """Logs each warning once: the same request causes the same one every time."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, headers: Mapping[str, str]) -> None:
        """Log what an answer warns of."""
        header = headers.get("Warning")
        if header is None or header in self._told:
            return
        if len(self._told) >= _REMEMBERED:
            self._told.clear()
        self._told.add(header)
        for text in _warning.findall(header):
            _log.warning("the API server warns", warning=re.sub(r"\\(.)", r"\1", text))
