"""Small drawings as SVG: shapes by class, colours by a style sheet that follows the theme, light or dark."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

__all__ = ["SERIES", "Drawing"]

FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
# The colours differ for colour-blind readers too; the second of each pair is for a dark page.
SERIES = (
    ("#0969da", "#58a6ff"),
    ("#9a6700", "#d9a53f"),
    ("#bc4c00", "#f0883e"),
    ("#8250df", "#bc8cff"),
    ("#1a7f37", "#56d364"),
    ("#6e7781", "#9aa4af"),
    ("#bf3989", "#f778ba"),
    ("#1b7c83", "#39c5cf"),
)
TEXT, FAINT, LINE = ("#1f2328", "#e6edf3"), ("#59636e", "#9198a1"), ("#d1d9e0", "#3d444d")


class Drawing:
    """An SVG of a given width, whose height is set at the end; x goes right and y down, in pixels."""

    def __init__(self, width: int, title: str) -> None:
        self.width = width
        self._title = title
        self._parts: list[str] = []

    def text(self, x: float, y: float, text: str, *, kind: str = "", anchor: str = "start") -> None:
        """Add a text. `kind`: "title", "faint" or ""; `anchor`: the end of the text that is at `x`."""
        self._add("text", escape(text), {"x": x, "y": y, "class": kind, "text-anchor": anchor})

    def bar(self, x: float, y: float, width: float, height: float, series: int) -> None:
        """Add a filled rectangle."""
        place = {"x": x, "y": y, "width": max(width, 1.0), "height": height, "rx": 2}
        self._add("rect", "", {**place, "class": _series(series)})

    def dot(self, x: float, y: float, radius: float, series: int) -> None:
        """Add a filled circle."""
        self._add("circle", "", {"cx": x, "cy": y, "r": radius, "class": _series(series)})

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Add a line. `kind`: "grid", "spread", or a series'."""
        self._add("line", "", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": kind})

    def stroke(self, x1: float, x2: float, y: float, series: int) -> None:
        """Add a horizontal line in the colour of a series."""
        self.line(x1, y, x2, y, f"{_series(series)} stroke")

    def finish(self, height: float) -> str:
        """Return the SVG file."""
        size = f'width="{self.width}" height="{height:.0f}" viewBox="0 0 {self.width} {height:.0f}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(self._title)}>'
        )
        return "\n".join([head, f"<style>{_style()}</style>", *self._parts, "</svg>", ""])

    def _add(self, tag: str, content: str, attributes: dict[str, str | float]) -> None:
        shown = " ".join(
            f"{name}={quoteattr(_plain(value))}" for name, value in attributes.items() if value != ""
        )
        self._parts.append(f"<{tag} {shown}>{content}</{tag}>" if content else f"<{tag} {shown}/>")


def _plain(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def _series(number: int) -> str:
    return f"s{number % len(SERIES)}"


def _style() -> str:
    return f"{_theme(0)}@media(prefers-color-scheme:dark){{{_theme(1)}}}"


def _theme(which: int) -> str:
    rules = [
        f"text{{font:12px {FONT};fill:{TEXT[which]}}}",
        f".title{{font-weight:600}}.faint{{fill:{FAINT[which]}}}",
        f".grid{{stroke:{LINE[which]}}}.spread{{stroke:{TEXT[which]};stroke-width:1.5}}",
        *(f".s{number}{{fill:{colours[which]}}}" for number, colours in enumerate(SERIES)),
        *(
            f".s{number}.stroke{{stroke:{colours[which]};stroke-width:4}}"
            for number, colours in enumerate(SERIES)
        ),
    ]
    return "".join(rules)
