"""Parser of a Dockerfile into stages and instructions."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support import ROOT

DOCKERFILE = ROOT / "Dockerfile"
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction, with its continuation lines joined."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Return the words of the instruction; an exec form is parsed as its JSON array."""
        return list(json.loads(self.text)) if self.text.startswith("[") else shlex.split(self.text)

    @property
    def flags(self) -> dict[str, str]:
        """Return the words of the form `--name=value` as a map."""
        found = (word[2:].partition("=") for word in self.words if word.startswith("--"))
        return {name: value for name, _, value in found}

    @property
    def arguments(self) -> list[str]:
        """Return the words that do not begin with `--`."""
        return [word for word in self.words if not word.startswith("--")]

    @property
    def pairs(self) -> dict[str, str]:
        """Return the `NAME=value` words of ENV, LABEL or ARG as a map."""
        found = (word.partition("=") for word in self.words)
        return {name: value for name, _, value in found}


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """The instructions from one FROM to the next; `base` is the name of an image or of an earlier stage."""

    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def of(self, name: str) -> list[Instruction]:
        """Return the stage's instructions with this name, such as RUN."""
        return [each for each in self.instructions if each.name == name]


@dataclasses.dataclass(frozen=True, slots=True)
class Dockerfile:
    """All stages of a Dockerfile by name, in their order."""

    stages: dict[str, Stage]

    @classmethod
    def read(cls, path: Path = DOCKERFILE) -> Dockerfile:
        """Parse the Dockerfile; every stage must have a name."""
        stages: dict[str, Stage] = {}
        globals_: dict[str, str] = {}
        name, base, body = "", "", list[Instruction]()
        for instruction in [*_instructions(path.read_text()), Instruction("FROM", "end AS end")]:
            if instruction.name != "FROM":
                body.append(instruction)
                continue
            if name:
                stages[name] = Stage(name, base, tuple(body))
            else:
                globals_ = {key: value for each in body for key, value in each.pairs.items()}
            base, keyword, name = instruction.words
            assert keyword == "AS", instruction
            base, body = expanded(base, globals_), []
        return cls(stages)

    def lineage(self, name: str) -> list[Stage]:
        """Return the base stages of a stage, the first base first, and then the stage itself."""
        found = [self.stages[name]]
        while found[0].base in self.stages:
            found.insert(0, self.stages[found[0].base])
        return found


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Replace $NAME and ${NAME} by their values; a name without a value becomes empty."""
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2], ""), text)


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    for line in joined.splitlines():
        name, _, rest = line.partition(" ")
        yield Instruction(name.upper(), rest.strip())
