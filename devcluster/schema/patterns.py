"""Regular expressions in Go's syntax, parsed as strictly as Go does, and written anew for Python's `re`."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

_Range = tuple[int, int]

_LAST = sys.maxunicode
_MOST_REPEATS = 1000
"""The maximum of a repetition, and of the product of nested repetitions."""
_DEEPEST = 1000
_HIGHEST_ASCII = 0x7F
_NAMED = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PERL = {"d": "0-9", "s": "\t\n\f\r\x20", "w": "0-9A-Za-z_"}
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\x00-\x7f",
    "blank": "\t ",
    "cntrl": "\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@[-`{-~",
    "space": "\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_CATEGORY_NAMES = """
C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
"""
# The names that every supported Kubernetes knows. The newest version also accepts other spellings, such as
# `Letter`.
_SCRIPT_NAMES = """
Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki
Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee
Chorasmian Common Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra
Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati
Gunjala_Gondi Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited
Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi
Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian
Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui
Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari
Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic
Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage
Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan
Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Syloti_Nagri
Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan
Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square
"""
_CATEGORIES, _SCRIPTS = frozenset(_CATEGORY_NAMES.split()), frozenset(_SCRIPT_NAMES.split())
_NAMED_BY_WORDS = {"Han": "CJK"}
"""Scripts whose characters' names begin with another word."""


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile the pattern, to be used with `search`.

    Raises:
        ValueError: it is no pattern of Go; with the text for people.
    """
    try:
        return re.compile(_Parser(pattern).parse())
    except _Mistake as error:
        raise ValueError(f"error parsing regexp: {error.what}: `{error.where}`") from None
    except (re.error, OverflowError, RecursionError):
        raise ValueError(f"error parsing regexp: expression nests too deeply: `{pattern}`") from None


class _Mistake(Exception):
    """Go refuses the pattern; the error has the reason and the wrong part."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what, where)
        self.what = what
        self.where = where


@dataclasses.dataclass(frozen=True, slots=True)
class _Flags:
    """The state of `(?imsU)`."""

    i: bool = False
    m: bool = False
    s: bool = False
    U: bool = False


class _Repeat(NamedTuple):
    """The maximum count of a repetition, with the repetitions within it."""

    times: int
    inner: tuple[_Repeat, ...]


@dataclasses.dataclass(slots=True)
class _Atom:
    """The target of a repetition that follows."""

    text: str
    repeats: tuple[_Repeat, ...] = ()
    empty: bool = False
    """Whether the part matches the empty string between characters.

    Python repeats such parts only in parentheses."""


@dataclasses.dataclass(slots=True)
class _Group:
    """An open parenthesis, or the whole pattern."""

    opening: str
    outer_flags: _Flags
    alternatives: list[list[_Atom]] = dataclasses.field(default_factory=lambda: [[]])

    def add(self, text: str, repeats: tuple[_Repeat, ...] = (), *, empty: bool = False) -> None:
        self.alternatives[-1].append(_Atom(text, repeats, empty))

    def text(self) -> str:
        return "|".join("".join(atom.text for atom in atoms) for atoms in self.alternatives)

    def repeats(self) -> tuple[_Repeat, ...]:
        return tuple(each for atoms in self.alternatives for atom in atoms for each in atom.repeats)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._flags = _Flags()
        self._groups = [_Group("", self._flags)]
        self._repeated_at: int | None = None
        """The start of the repetition that has just ended; another one may not follow it."""

    def parse(self) -> str:
        """Return the pattern in Python's syntax."""
        while self._at < len(self._pattern):
            repeated_at, self._repeated_at = self._repeated_at, None
            self._step(repeated_at)
        if len(self._groups) > 1:
            raise _Mistake("missing closing )", self._pattern)
        return self._groups[0].text()

    def _step(self, repeated_at: int | None) -> None:
        group, text, at = self._groups[-1], self._pattern, self._at
        self._at += 1
        match text[at]:
            case "(":
                self._open(at)
            case ")":
                self._close()
            case "|":
                group.alternatives.append([])
            case "^":
                group.add("(?m:^)" if self._flags.m else r"\A", empty=True)
            case "$":
                group.add("(?m:$)" if self._flags.m else r"\Z", empty=True)
            case ".":
                group.add("(?s:.)" if self._flags.s else "[^\\n]")
            case "[":
                group.add(self._class(at))
            case "*" | "?":
                self._repeat(at, 0, repeated_at, text[at])
            case "+":
                self._repeat(at, 1, repeated_at, "+")
            case "{" if counts := re.compile(r"(0|[1-9]\d*)(,(0|[1-9]\d*)?)?\}", re.ASCII).match(
                text, at + 1
            ):
                self._at = counts.end()
                self._repeat_counted(at, counts, repeated_at)
            case "\\":
                self._escape(at)
            case character:
                group.add(self._literal(ord(character)))

    # Parentheses

    def _open(self, at: int) -> None:
        text = self._pattern
        if len(self._groups) > _DEEPEST:
            raise _Mistake("expression nests too deeply", text)
        if not text.startswith("?", at + 1):
            self._groups.append(_Group("(", self._flags))
        elif text.startswith(("(?P<", "(?<"), at):
            end = text.find(">", at)
            if end < 0:
                raise _Mistake("invalid named capture", text[at:])
            if not re.fullmatch("[0-9A-Za-z_]+", text[text.index("<", at) + 1 : end]):
                raise _Mistake("invalid named capture", text[at : end + 1])
            self._groups.append(_Group("(", self._flags))
            self._at = end + 1
        else:
            self._set_flags(at)

    def _set_flags(self, at: int) -> None:
        """Read `(?i)`, whose flags hold to the end of the group, or `(?i:`, whose flags hold in a new one."""
        flags, on, said = self._flags, True, True
        for position, character in enumerate(self._pattern[at + 2 :], at + 2):
            if character in "imsU":
                flags, said = dataclasses.replace(flags, **{character: on}), True
            elif character == "-" and on:
                on = said = False
            elif character in ":)" and said:
                if character == ":":
                    self._groups.append(_Group("(?:", self._flags))
                self._flags, self._at = flags, position + 1
                return
            else:
                break
        else:
            position = len(self._pattern) - 1
        raise _Mistake("invalid or unsupported Perl syntax", self._pattern[at : position + 1])

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise _Mistake("unexpected )", self._pattern)
        group = self._groups.pop()
        self._flags = group.outer_flags
        self._groups[-1].add(f"{group.opening}{group.text()})", group.repeats())

    # Repetitions

    def _repeat_counted(self, at: int, counts: re.Match[str], repeated_at: int | None) -> None:
        least, most = int(counts[1]), int(counts[3] or -1) if counts[2] else int(counts[1])
        if max(least, most) > _MOST_REPEATS or 0 <= most < least:
            raise _Mistake("invalid repeat count", self._pattern[at : self._at])
        self._repeat(at, least if most < 0 else most, repeated_at, counts[0].join(("{", "")))

    def _repeat(self, at: int, count: int, repeated_at: int | None, operator: str) -> None:
        text, atoms = self._pattern, self._groups[-1].alternatives[-1]
        lazy = text.startswith("?", self._at)
        self._at += lazy
        if repeated_at is not None:
            raise _Mistake("invalid nested repetition operator", text[repeated_at : self._at])
        if not atoms:
            raise _Mistake("missing argument to repetition operator", text[at : self._at])
        atom, counted = atoms[-1], operator[0] == "{"
        repeat = _Repeat(count if counted else 0, atom.repeats)
        if counted and count > 1 and not _fits(repeat, _MOST_REPEATS):
            raise _Mistake("invalid repeat count", text[at : self._at])
        repeated = f"(?:{atom.text})" if atom.empty or atom.repeats else atom.text
        atoms[-1] = _Atom(repeated + operator + ("?" if lazy != self._flags.U else ""), (repeat,))
        self._repeated_at = at

    # Characters

    def _literal(self, code: int) -> str:
        text = re.escape(chr(code))
        return f"(?i:{text})" if self._flags.i and text.isalpha() else text

    def _escape(self, at: int) -> None:
        group, text = self._groups[-1], self._pattern
        match text[at + 1 : at + 2]:
            case "A":
                group.add(r"\A", empty=True)
            case "z":
                group.add(r"\Z", empty=True)
            case "b":
                group.add(r"(?a:\b)", empty=True)
            case "B":
                group.add(r"(?!(?a:\b))", empty=True)  # Python's own finds none in an empty text
            case "Q":
                end = text.find(r"\E", at)
                for character in text[at + 2 : end if end >= 0 else None]:
                    group.add(self._literal(ord(character)))
                self._at = end + 2 if end >= 0 else len(text)
                return
            case _:
                members = self._members(at)
                if members is None:
                    group.add(self._literal(self._escaped(at)))
                else:
                    group.add(self._written(members))
                return
        self._at = at + 2

    def _escaped(self, at: int) -> int:
        """Return the character that the escape sequence stands for."""
        text = self._pattern
        character = text[at + 1 : at + 2]
        if not character:
            raise _Mistake("trailing backslash at end of expression", "")
        if (octal := re.compile("0[0-7]{0,2}|[1-7][0-7]{1,2}").match(text, at + 1)) is not None:
            self._at = octal.end()
            return int(octal[0], 8)
        self._at = at + 2
        if character == "x":
            return self._hexadecimal(at)
        if character in _NAMED:
            return ord(_NAMED[character])
        if ord(character) <= _HIGHEST_ASCII and not character.isalnum():
            return ord(character)
        raise _Mistake("invalid escape sequence", text[at : self._at])

    def _hexadecimal(self, at: int) -> int:
        text = self._pattern
        found = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})").match(text, at + 2)
        if found is not None and (code := int(found[1] or found[2], 16)) <= _LAST:
            self._at = found.end()
            return code
        wrong = re.compile(r"\{[0-9A-Fa-f]*.?|[0-9A-Fa-f]?.?", re.DOTALL).match(text, at + 2)
        assert wrong is not None
        raise _Mistake("invalid escape sequence", text[at : wrong.end()])

    # Classes

    def _class(self, at: int) -> str:
        text = self._pattern
        negated = text.startswith("^", self._at)
        self._at += negated
        members: list[_Range] = []
        first = self._at
        while not text.startswith("]", self._at) or self._at == first:
            begin = self._at
            end = text.find(":]", begin + 2) if text.startswith("[:", begin) else -1
            if end >= 0:
                members += _posix(text[begin : end + 2])
                self._at = end + 2
            elif (found := self._members(begin)) is not None:
                members += found
            else:
                members.append(self._range(at))
        self._at += 1
        return self._written(_complement(members) if negated else members)

    def _range(self, of: int) -> _Range:
        text, begin = self._pattern, self._at
        low = high = self._member(of)
        if text.startswith("-", self._at) and self._at + 1 < len(text) and text[self._at + 1] != "]":
            self._at += 1
            high = self._member(of)
            if high < low:
                raise _Mistake("invalid character class range", text[begin : self._at])
        return low, high

    def _member(self, of: int) -> int:
        if self._at >= len(self._pattern):
            raise _Mistake("missing closing ]", self._pattern[of:])
        character = self._pattern[self._at]
        if character == "\\":
            return self._escaped(self._at)
        self._at += 1
        return ord(character)

    def _members(self, at: int) -> list[_Range] | None:
        """Read an escape that stands for several characters; None where there is none."""
        text = self._pattern
        name = text[at + 1 : at + 2]
        if not text.startswith("\\", at) or not name:
            return None
        if name.lower() in _PERL:
            self._at = at + 2
            members = _ranges(_PERL[name.lower()])
        elif name in "pP" and at + 2 < len(text):
            found = re.compile(r"\{(.*?)\}|([^{])", re.DOTALL).match(text, at + 2)
            if found is None:
                raise _Mistake("invalid character class range", text[at:])
            self._at = found.end()
            inner = found[2] or found[1]
            members = _property(inner.removeprefix("^"), text[at : self._at])
            if inner.startswith("^"):
                members = _complement(members)
        else:
            return None
        return members if name.islower() else _complement(members)

    def _written(self, members: Iterable[_Range]) -> str:
        text = "".join(
            f"\\U{low:08x}" + (f"-\\U{high:08x}" if high > low else "") for low, high in _merged(members)
        )
        if not text:
            return "(?!)"
        return f"(?i:[{text}])" if self._flags.i else f"[{text}]"


def _fits(repeat: _Repeat, most: int) -> bool:
    """Return whether nested repetitions stay within the limit together."""
    if repeat.times > most:
        return False
    most = most // repeat.times if repeat.times > 0 else most
    return all(_fits(each, most) for each in repeat.inner)


def _ranges(text: str) -> list[_Range]:
    """Read the members of a class without escapes."""
    found = re.findall(r"(.)(?:-(.))?", text, re.DOTALL)
    return [(ord(low), ord(high or low)) for low, high in found]


def _posix(text: str) -> list[_Range]:
    name = text[2:-2]
    if name.removeprefix("^") not in _POSIX:
        raise _Mistake("invalid character class range", text)
    members = _ranges(_POSIX[name.removeprefix("^")])
    return _complement(members) if name.startswith("^") else members


def _property(name: str, text: str) -> list[_Range]:
    if name == "Any":
        return [(0, _LAST)]
    if name in _CATEGORIES:
        return list(_of_category(name))
    if name in _SCRIPTS:
        return list(_of_script(name))
    raise _Mistake("invalid character class range", text)


@functools.cache
def _of_category(name: str) -> tuple[_Range, ...]:
    unassigned = "Cn"
    return tuple(
        _merged(
            (code, code)
            for code in range(_LAST + 1)
            if (category := unicodedata.category(chr(code))).startswith(name) and category != unassigned
        )
    )


@functools.cache
def _of_script(name: str) -> tuple[_Range, ...]:
    """Return about a script's characters: Python knows the characters' names, but not their scripts."""
    word = _NAMED_BY_WORDS.get(name, name.upper().replace("_", " ")) + " "
    return tuple(
        _merged((code, code) for code in range(_LAST + 1) if unicodedata.name(chr(code), "").startswith(word))
    )


def _merged(members: Iterable[_Range]) -> Iterator[_Range]:
    """Join ranges that touch or overlap, in order."""
    begin = end = None
    for low, high in sorted(members):
        if begin is None or end is None:
            begin, end = low, high
        elif low > end + 1:
            yield begin, end
            begin, end = low, high
        else:
            end = max(end, high)
    if begin is not None and end is not None:
        yield begin, end


def _complement(members: Iterable[_Range]) -> list[_Range]:
    edges = [(-1, -1), *_merged(members), (_LAST + 1, _LAST + 1)]
    return [(before[1] + 1, after[0] - 1) for before, after in pairwise(edges) if before[1] + 1 < after[0]]
