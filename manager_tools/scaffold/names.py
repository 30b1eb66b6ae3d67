"""The names that a project, a group and a kind have, in place of those of the template."""

from __future__ import annotations

import re
from dataclasses import dataclass

from manager.util.program import Program
from manager_tools.codegen.python_source import is_name

_DOMAIN = re.compile(r"(?=.{1,200}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")
_GROUP = re.compile(r"[a-z][a-z0-9]{0,49}")
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,49}")
_PLURAL = re.compile(r"[a-z][a-z0-9]{0,61}")

_OURS = re.compile(
    r"manager_tools\.scaffold\.project\.|hello\.example\.com|example\.com|hello|greeter|[Gg]reetings?|[Vv]1beta1|\bv1\b|(?<=hello_)v1(?=_)"
)
"""Every name of the template that stands for another one."""

_IMPORTS = re.compile(r"(?:^from (?!__future__)\S+ import [^(\n]+\n)+", re.MULTILINE)
"""Imports in lines one below the other."""


class ScaffoldError(Exception):
    """Scaffolding failure; the one-line message gives the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Names in a scaffolded project. Raises `ScaffoldError` for an invalid name."""

    program: str
    domain: str
    group: str = "hello"
    version: str = "v1"
    kind: str = "Greeting"
    plural: str = "greetings"
    spoke: str = "v1beta1"
    """Another version of the kind."""

    def __post_init__(self) -> None:
        try:
            Program(self.program, "0")
        except ValueError as error:
            raise ScaffoldError(str(error)) from None
        for what, value, pattern, expected in (
            ("--domain", self.domain, _DOMAIN, "a name such as example.com"),
            ("--group", self.group, _GROUP, "a lower-case word such as hello, without the domain,"),
            ("--version", self.version, _VERSION, "v1, v2beta1 or the like"),
            ("--conversion", self.spoke, _VERSION, "v1, v2beta1 or the like"),
            ("--kind", self.kind, _KIND, "a word of letters and digits that begins in upper case"),
            ("--plural", self.plural, _PLURAL, "a lower-case word"),
        ):
            if not pattern.fullmatch(value):
                raise ScaffoldError(f"invalid value {value!r} for {what}: {expected} is expected")
        for what, value in (("--group", self.group), ("--kind", self.module), ("--kind", self.kind)):
            if not is_name(value):
                raise ScaffoldError(f"invalid value for {what}: {value!r} is a Python keyword")
        if self.module == "self":
            raise ScaffoldError(f"invalid value for --kind: {self.kind!r} is `self` in methods")

    @property
    def module(self) -> str:
        """Return the kind's name in the form for modules and variables."""
        return self.kind.lower()

    def in_place(self, text: str) -> str:
        """Give `text` of the template these names."""
        names = {
            "manager_tools.scaffold.project.": "",
            "hello.example.com": f"{self.group}.{self.domain}",
            "example.com": self.domain,
            "hello": self.group,
            "greeter": self.program,
            "Greeting": self.kind,
            "greeting": self.module,
            "greetings": self.plural,
            "v1beta1": self.spoke,
            "V1beta1": self.spoke.capitalize(),
            "v1": self.version,
        }
        return _IMPORTS.sub(_in_order, _OURS.sub(lambda found: names[found[0]], text))


def plural_of(kind: str) -> str:
    """Return the plural of a word by English rules."""
    word = kind.lower()
    if word.endswith("y") and word[-2:-1] not in {*"aeiou", ""}:
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def _in_order(imports: re.Match[str]) -> str:
    """Sort a block of `from MODULE import ...` lines for the linter."""
    return "".join(sorted(imports[0].splitlines(keepends=True), key=lambda line: line.split()[1]))
