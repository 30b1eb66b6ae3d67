"""The README's picture: the demo on a terminal of 80x24, as an animated SVG.

`make picture` runs the demo, runs the commands that a user would run in another terminal, and writes
docs/demo.svg. It replaces times and identifiers, so that two recordings differ only if the demo has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI

from demo.board import Board
from demo.run import Demo
from demo.screen import KEYS, View
from demo.view import render

__all__ = [
    "ACTS",
    "CELL_WIDTH",
    "HEIGHT",
    "MARGIN",
    "PICTURE",
    "WIDTH",
    "Frame",
    "Recording",
    "Run",
    "picture",
]

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "demo.svg"
WIDTH, HEIGHT = 80, 24
ACTS = (
    "kubectl scale memcached",
    "kubectl run jack",
    "kubectl patch pet pet-sample1 --type=merge -p 'spec: {name",
)
"""The first words of the hints whose commands the recording runs."""
PAUSE, LAST = 4.0, 6.0
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 12
BASE = datetime(2026, 1, 1, 10)  # noqa: DTZ001 - a local time, for display only
CLOCK = re.compile(r"\b\d\d:\d\d:\d\d\b(?!Z)")
IDENTIFIER = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{4,27}")


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A part of a line in which all characters have one style."""

    column: int
    text: str
    style: str
    """The style's CSS."""


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """The content of the screen, from a given moment on."""

    at: float
    rows: tuple[tuple[Run, ...], ...]
    """The rows; the last row is the command that a user types in another terminal."""


class Recording(View):
    """A view that stores its frames, and runs the commands of an imaginary user when everything is ready."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Console(file=io.StringIO(), width=WIDTH, height=HEIGHT, color_system="truecolor"))
        self.frames: list[Frame] = []
        self._kubeconfig = folder / "kubeconfig"
        self._began = 0.0
        self._typed = ""
        self._acting: asyncio.Task[None] | None = None
        self._first: datetime | None = None
        self._identifiers: dict[str, str] = {}

    def refresh(self, board: Board, hints: str) -> None:  # noqa: ARG002 - a view on a terminal needs these
        """Record the screen if it differs from the last frame."""
        now = asyncio.get_running_loop().time()
        self._began = self._began or now
        drawn = self._console.render_lines(
            render(board, self._console, height=HEIGHT - 1, footer=KEYS), pad=False
        )
        rows = []
        for line in drawn[: HEIGHT - 1]:
            column, runs = 0, []
            for segment in line:
                text = self._settled(segment.text.rstrip("\n"))
                if text.strip():
                    runs.append(Run(column, text.rstrip(), css(segment.style)))
                column += segment.cell_length
            rows.append(tuple(runs))
        rows += [()] * (HEIGHT - 1 - len(rows))
        rows.append((Run(0, f"$ {self._typed}", ""),))
        if not self.frames or self.frames[-1].rows != tuple(rows):
            self.frames.append(Frame(round(now - self._began, 1), tuple(rows)))

    def settle(self, hints: str) -> None:
        """Start to run the commands of the imaginary user."""
        self._acting = asyncio.create_task(self._act(hints), name="commands of the user")

    async def _act(self, hints: str) -> None:
        environ = {**os.environ, "KUBECONFIG": str(self._kubeconfig)}
        for line in hints.splitlines():
            if line.startswith(ACTS):
                await asyncio.sleep(PAUSE)
                self._typed = re.sub(r"\s{2,}#.*", "", line)
                await asyncio.sleep(PAUSE / 4)
                await asyncio.to_thread(
                    subprocess.run, ["bash", "-c", line], env=environ, capture_output=True, check=False
                )
        await asyncio.sleep(PAUSE)
        os.kill(os.getpid(), signal.SIGINT)

    def _settled(self, text: str) -> str:
        return IDENTIFIER.sub(self._identifier, CLOCK.sub(self._time, text))

    def _time(self, found: re.Match[str]) -> str:
        told = datetime.strptime(found[0], "%H:%M:%S")  # noqa: DTZ007
        self._first = self._first or told
        return f"{BASE + timedelta(seconds=(told - self._first).total_seconds()):%H:%M:%S}"

    def _identifier(self, found: re.Match[str]) -> str:
        number = len(self._identifiers)
        other = self._identifiers.setdefault(found[0][:8], str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))))
        return other[: len(found[0])]


def css(style: Style | None) -> str:
    """Convert a style of the view to CSS."""
    if style is None:
        return ""
    parts = []
    if style.color is not None and not style.color.is_default:
        parts.append(f"fill:{style.color.get_truecolor(MONOKAI).hex}")
    if style.bold:
        parts.append("font-weight:bold")
    if style.dim:
        parts.append("opacity:.6")
    return ";".join(parts)


def picture(frames: Iterable[Frame]) -> str:
    """Return an SVG that repeats the frames; readers without animation see the last frame."""
    frames = list(frames)
    whole = frames[-1].at + LAST
    shown: dict[tuple[float, float], list[str]] = {}
    styles = {each.style: "" for frame in frames for row in frame.rows for each in row if each.style}
    styles = {style: f"s{number}" for number, style in enumerate(sorted(styles))}
    for number in range(HEIGHT):
        began, row = 0.0, frames[0].rows[number]
        for frame in [*frames[1:], Frame(whole, ((),) * HEIGHT)]:
            if frame.rows[number] != row or frame.at == whole:
                if row:
                    shown.setdefault((began, frame.at), []).append(line(number, row, styles))
                began, row = frame.at, frame.rows[number]
    rules = [f".{name}{{{style}}}" for style, name in styles.items()]
    groups = []
    for number, ((began, ended), lines) in enumerate(sorted(shown.items())):
        rules.append(f"@keyframes k{number}{{{moments(began / whole, ended / whole)}}}")
        still = "visible" if ended == whole else "hidden"
        rules.append(f"#g{number}{{visibility:{still};animation:k{number} {whole:g}s step-end infinite}}")
        groups.append(f'<g id="g{number}">\n{"".join(lines)}</g>\n')
    width, height = WIDTH * CELL_WIDTH + 2 * MARGIN, (HEIGHT + 1) * CELL_HEIGHT + 3 * MARGIN
    other = (HEIGHT - 1) * CELL_HEIGHT + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        'xml:space="preserve">\n'
        "<title>make demo on a terminal of 80 columns and 24 lines, and commands in another one</title>\n"
        "<style>\ntext{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d9d9d9;"
        "white-space:pre}\n" + "\n".join(rules) + "\n"
        "@media (prefers-reduced-motion:reduce){g{animation:none!important}}\n</style>\n"
        f'<rect width="{width:g}" height="{other:g}" rx="6" fill="#0c0c0c"/>\n'
        f'<rect y="{other + 4:g}" width="{width:g}" height="{height - other - 4:g}" rx="6" fill="#0c0c0c"/>\n'
        f"{''.join(groups)}</svg>\n"
    )


def line(number: int, row: Iterable[Run], styles: Mapping[str, str]) -> str:
    """Return the SVG of one line; each part has the width of its terminal cells, whatever the font is."""
    y = MARGIN + 13 + number * CELL_HEIGHT + (MARGIN + CELL_HEIGHT / 2 if number == HEIGHT - 1 else 0)
    pieces = []
    for each in row:
        text = each.text.lstrip()
        x = MARGIN + (each.column + len(each.text) - len(text)) * CELL_WIDTH
        style = f' class="{styles[each.style]}"' if each.style else ""
        place = f'x="{x:.1f}" y="{y:g}" textLength="{len(text) * CELL_WIDTH:.1f}"'
        pieces.append(f"<text {place}{style}>{escape(text)}</text>")
    return "".join(pieces) + "\n"


def moments(began: float, ended: float) -> str:
    """Return the CSS keyframes of a line that is visible during a part of the animation."""
    steps = ["0%{visibility:hidden}"] if began else []
    steps.append(f"{began:.2%}{{visibility:visible}}")
    steps.append(f"{ended:.2%}{{visibility:{'hidden' if ended < 1 else 'visible'}}}")
    return "".join(steps)


def main() -> int:
    """Record the demo; return its exit code."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(sys.stdout):
        recording = Recording(Path(folder))
        code = asyncio.run(Demo(root=ROOT, folder=Path(folder), once=False, screen=recording).run())
    if code == 0:
        PICTURE.write_text(picture(recording.frames))
        size = PICTURE.stat().st_size // 1000
        print(f"{os.path.relpath(PICTURE)}: {len(recording.frames)} frames, {size} KB")
    return code


if __name__ == "__main__":
    sys.exit(main())
