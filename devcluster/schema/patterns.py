"""Regular expressions as Go writes them, for Python's `re`."""

from __future__ import annotations

import dataclasses
import functools
import re

__all__ = ["compile_pattern"]

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PROPERTIES = {
    "L": "^\\W\\d_",
    "Lu": "A-ZÀ-ÖØ-Þ",
    "Ll": "a-zß-öø-ÿ",
    "N": "0-9",
    "Nd": "0-9",
    "P": r"!-#%-*,-/:;?@\[-\]_{}",
    "S": r"$+<->^`|~",
    "Z": r"\s",
}
_PROPERTY = re.compile(r"\\[pP]")
_MISTAKES = {
    "missing ), unterminated subpattern": "missing closing )",
    "unbalanced parenthesis": "unexpected )",
    "unterminated character set": "missing closing ]",
    "nothing to repeat": "missing argument to repetition operator",
    "bad escape (end of pattern)": "trailing backslash at end of expression",
    "bad character range": "invalid character class range",
}
_TOKEN = re.compile(
    r"(?P<posix>\[:\^?\w+:\])|(?P<property>\\[pP](?:\{\^?\w+\}|\w))|(?P<quote>\\Q.*?(?:\\E|$))|(?P<escape>\\.)"
    r"|(?P<around>\(\?<?[=!])|(?P<group>\(\?P?<)|(?P<flags>\(\?[a-zA-Z]*(?:-[a-zA-Z]+)?[:)])|(?P<char>.)",
    re.DOTALL,
)


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, to be used with `search`.

    Raises:
        ValueError: it is none; with the text for people.
    """
    try:
        return re.compile(_translate(pattern), 0 if _PROPERTY.search(pattern) else re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"error parsing regexp: {_explain(error)}: `{pattern}`") from error


def _explain(error: Exception) -> str:
    """What Go says of the same mistake, where it is a common one."""
    text = str(error)
    for python, go in _MISTAKES.items():
        if text.startswith(python):
            return go
    return text


@dataclasses.dataclass(slots=True)
class _Group:
    """What is between two parentheses, or the whole pattern."""

    multiline: bool = False
    # In Go, flags hold from where they stand to the end of the group; in Python, in a group of their own.
    flags: list[str] = dataclasses.field(default_factory=list)

    @property
    def end_of_flags(self) -> str:
        return ")" * len(self.flags)


def _translate(pattern: str) -> str:
    out: list[str] = []
    groups = [_Group()]
    within = False
    for token in _TOKEN.finditer(pattern):
        text, kind = token.group(), str(token.lastgroup)
        if within and kind in {"around", "group", "flags"}:
            # In a class, these are characters like others.
            out.append(text)
        elif kind == "flags":
            out.append(_set_flags(text, groups))
        elif kind != "char":
            if kind == "group":
                groups.append(_Group(groups[-1].multiline))
            out.append(_translate_token(kind, text, within=within))
        elif not within:
            within = text == "["
            out.append(_translate_char(text, groups))
        elif text == "^" and out[-1] == "[":
            out[-1] = "[^"
        else:
            # A bracket that closes nothing yet is a member of the class.
            within = text != "]" or out[-1] in {"[", "[^"}
            out.append(r"\[" if text == "[" else text)
    return "".join(out) + groups[-1].end_of_flags


def _set_flags(text: str, groups: list[_Group]) -> str:
    """`(?i)` and `(?i:`; the first is made a group too, which ends where its effect does."""
    given, _, taken = text[2:-1].partition("-")
    multiline = ("m" in given or groups[-1].multiline) and "m" not in taken
    if text.endswith(":"):
        groups.append(_Group(multiline))
        return text
    if not given and not taken:
        return ""
    begin = text[:-1] + ":"
    groups[-1].flags.append(begin)
    groups[-1].multiline = multiline
    return begin


def _translate_char(text: str, groups: list[_Group]) -> str:
    group = groups[-1]
    if text == "(":
        groups.append(_Group(group.multiline))
    elif text == ")":
        if len(groups) > 1:
            groups.pop()
        return group.end_of_flags + text
    elif text == "|":
        # An alternative is less than a group, and flags hold in those that follow too.
        return group.end_of_flags + text + "".join(group.flags)
    elif text == "$" and not group.multiline:
        return r"\Z"
    return text


def _translate_token(kind: str, text: str, *, within: bool) -> str:
    if kind == "around":
        raise re.error(f"invalid or unsupported Perl syntax: `{text}`")
    if kind == "posix":
        return _posix(text) if within else text
    if kind == "property":
        return _property(text, within=within)
    if kind == "quote":
        return re.escape(text[2:].removesuffix("\\E"))
    if kind == "group":
        return "(?P<"
    return {"\\z": r"\Z", "\\C": "."}.get(text, text)


def _posix(text: str) -> str:
    name = text[2:-2]
    if name.startswith("^"):
        raise re.error(f"invalid character class range: {text}")
    if name not in _POSIX:
        raise re.error(f"invalid character class range: {text}")
    return _POSIX[name]


def _property(text: str, *, within: bool) -> str:
    name = text[2:].strip("{}")
    negated = (text[1] == "P") != name.startswith("^")
    members = _PROPERTIES.get(name.removeprefix("^"))
    if members is None:
        raise re.error(f"invalid character class range: {text}")
    if within:
        return r"\w" if members.startswith("^") else members
    if members.startswith("^"):
        return r"[\W\d_]" if negated else r"[^\W\d_]"
    return f"[^{members}]" if negated else f"[{members}]"
