"""The README's picture: the demo on a terminal of 80x24 when every sample is ready, as an SVG."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from demo.run import Demo
from demo.screen import View
from demo.view import render

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "demo.svg"
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""A font that Rich names, from a server."""


class Recording(View):
    """A view on a terminal in memory, which ends the demo when every sample is ready."""

    def __init__(self) -> None:
        self.console = Console(file=io.StringIO(), width=80, height=24, record=True)
        super().__init__(self.console)

    def settle(self, hints: str) -> None:  # noqa: ARG002 - a view on a terminal needs them
        """End the demo."""
        os.kill(os.getpid(), signal.SIGINT)

    def write(self, path: Path) -> None:
        """Write the last state of the demo to the file."""
        assert self._board is not None
        self.console.export_text()  # forget what the demo has printed
        self.console.print(render(self._board, self.console, height=self.console.height))
        svg = self.console.export_svg(title="make demo", theme=MONOKAI, unique_id="demo")
        path.write_text(FONT.sub("", svg))


def main() -> int:
    """Record the demo. Returns its exit code."""
    recording = Recording()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(sys.stdout):
        code = asyncio.run(Demo(root=ROOT, folder=Path(folder), once=False, screen=recording).run())
    if code == 0:
        recording.write(PICTURE)
    return code


if __name__ == "__main__":
    sys.exit(main())
