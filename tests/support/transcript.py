"""Terminal sessions on a documentation page, and their comparison with real output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.support.markdown import Block

_PROMPT = "$ "
_REMARK = re.compile(r"\s{2,}#( .*)?$")
_ANYTHING = "..."

_DIFFERS = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>"),
    # A pod's suffix: the hash of its template, and five random letters.
    (r"-[0-9a-z]{7,10}-[0-9a-z]{5}\b", "-<pod>"),
    (r"(?<![\w.-])(\d+d)?(\d+h)?(\d+m)?(\d+s)?(?<=\d[dhms])(?![\w.-])", "<age>"),
    (r"<age> \(x\d+ over <age>\)", "<age>"),
    # An address on this machine, and where anything listens whose port a test has to choose.
    (r"(127\.0\.0\.1)?:\d{4,5}\b", ":<port>"),
    (r"\b3[0-2]\d{3}\b", "<node port>"),
    # kubectl says so since 1.34.
    (r"( deleted) from \S+ namespace$", r"\1"),
)
"""What is another at each run, or with another version, and what stands for it in a comparison."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command as one types it, and what the page shows below it."""

    where: str
    text: str
    shown: tuple[str, ...] = ()
    """Empty where the page shows nothing; whatever comes is right then."""

    @property
    def in_background(self) -> bool:
        return self.text.endswith("&")


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a block in order, without the remarks behind them.

    In a block of sh, each line is a command or continues the previous one. In a block of console, each line
    after
    a prompt is a command, and the lines below it are its output.
    """
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        yield from _typed(block.where, lines)
        return
    for line in lines:
        if text := _without_remark(line):
            yield Command(block.where, text)


def _typed(where: str, lines: Iterable[str]) -> Iterator[Command]:
    text, shown = "", list[str]()
    for line in [*lines, _PROMPT]:
        if line.startswith(_PROMPT):
            if text:
                yield Command(where, text, tuple(shown))
            text, shown = _without_remark(line.removeprefix(_PROMPT)), []
        elif line.strip():
            shown.append(line)


def _without_remark(line: str) -> str:
    text = "" if line.startswith("#") else _REMARK.sub("", line)
    return " ".join(text.split())


def difference(shown: Iterable[str], came: str) -> str | None:
    """None when what came is what is shown, apart from what is another each time; else both, for a message.

    A shown line of three dots alone stands for any lines, and within a line they stand for anything.
    """
    pattern = "".join(map(_pattern, shown))
    text = "".join(f"{_plain(line)}\n" for line in came.splitlines() if line.strip())
    if re.fullmatch(pattern, text):
        return None
    return "shown:\n" + "\n".join(shown) + f"\nwhat came:\n{came}"


def _pattern(line: str) -> str:
    if line.strip() == _ANYTHING:
        return r"(?:.*\n)*?"
    return ".*".join(map(re.escape, _plain(line).split(_ANYTHING))) + r"\n"


def _plain(line: str) -> str:
    text = " ".join(line.split())
    for differs, instead in _DIFFERS:
        text = re.sub(differs, instead, text)
    return text
