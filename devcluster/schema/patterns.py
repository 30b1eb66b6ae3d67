"""Regular expressions in Go's syntax: checked as Go checks them, and matched by RE2 in linear time."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from typing import Any, Final, NamedTuple

import re2

_LAST: Final = sys.maxunicode
_MOST_REPEATS: Final = 1000
"""The maximum count of a repetition, and the maximum product of nested repetitions."""
_DEEPEST: Final = 1000
_MEMORY: Final = 32 << 20
"""Bytes of a compiled pattern and its states; filling them takes a third of a second."""
_HIGHEST_ASCII: Final = 0x7F
_SURROGATES: Final = range(0xD800, 0xE000)
_NAMED: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_POSIX_NAMES = """
alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit
"""
_CATEGORY_NAMES = """
C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
"""
# Class names that all supported Kubernetes versions accept. The newest version also accepts spellings like
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
_POSIX: Final = frozenset(_POSIX_NAMES.split())
_PROPERTIES: Final = frozenset(("Any", *_CATEGORY_NAMES.split(), *_SCRIPT_NAMES.split()))

# Python's own expressions, which re2 would use for syntax that RE2 lacks, may take for ever.
re2.set_fallback_notification(re2.FALLBACK_EXCEPTION)


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern to an object like Python's `re.Pattern`; raise ValueError if Go refuses it."""
    try:
        checked = _Parser(pattern).parse()
    except _Mistake as error:
        raise ValueError(f"error parsing regexp: {error.what}: `{error.where}`") from None
    try:
        return re2.compile(checked, re2.ASCII, max_mem=_MEMORY)
    except re2.error as error:
        what, _, where = str(error).partition(": ")
        if "too large" in what:
            what, where = "expression too large", pattern
        raise ValueError(f"error parsing regexp: {what}: `{where}`") from None


class _Mistake(Exception):
    """Error for a pattern that Go refuses, with the reason and the invalid part."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what, where)
        self.what = what
        self.where = where


class _Repeat(NamedTuple):
    """Repetition in a pattern: its largest number in braces, or 0, and the repetitions inside it."""

    times: int
    inner: tuple[_Repeat, ...]


@dataclasses.dataclass(slots=True)
class _Group:
    """Open parenthesis in a pattern, or the whole pattern."""

    atoms: list[tuple[_Repeat, ...]] = dataclasses.field(default_factory=list)
    """The repetitions within each part that can be repeated."""
    start: int = 0
    """The index of the current alternative's first part."""


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._parts: list[str] = []
        self._groups = [_Group()]
        self._repeated_at: int | None = None
        """The start of the repetition that has just ended; another one may not follow it."""

    def parse(self) -> str:
        """Return the pattern in RE2's syntax, with all escaped characters in the same notation."""
        while self._at < len(self._pattern):
            repeated_at, self._repeated_at = self._repeated_at, None
            self._step(repeated_at)
        if len(self._groups) > 1:
            raise _Mistake("missing closing )", self._pattern)
        return "".join(self._parts)

    def _add(self, text: str, repeats: tuple[_Repeat, ...] = ()) -> None:
        self._parts.append(text)
        self._groups[-1].atoms.append(repeats)

    def _step(self, repeated_at: int | None) -> None:
        text, at = self._pattern, self._at
        self._at += 1
        match text[at]:
            case "(":
                self._open(at)
            case ")":
                self._close()
            case "|":
                self._parts.append("|")
                self._groups[-1].start = len(self._groups[-1].atoms)
            case "^" | "$" | ".":
                self._add(text[at])
            case "[":
                self._class(at)
            case "*" | "?":
                self._repeat(at, 0, repeated_at)
            case "+":
                self._repeat(at, 1, repeated_at)
            case "{" if counts := re.compile(r"(0|[1-9]\d*)(,(0|[1-9]\d*)?)?\}", re.ASCII).match(
                text, at + 1
            ):
                self._at = counts.end()
                self._repeat_counted(at, counts, repeated_at)
            case "\\":
                self._escape(at)
            case character:
                self._add(_written(ord(character)))

    # Parentheses

    def _open(self, at: int) -> None:
        text = self._pattern
        if len(self._groups) > _DEEPEST:
            raise _Mistake("expression nests too deeply", text)
        if not text.startswith("?", at + 1):
            self._begin("(")
        elif text.startswith(("(?P<", "(?<"), at):
            end = text.find(">", at)
            if end < 0:
                raise _Mistake("invalid named capture", text[at:])
            if not re.fullmatch("[0-9A-Za-z_]+", text[text.index("<", at) + 1 : end]):
                raise _Mistake("invalid named capture", text[at : end + 1])
            self._begin("(")
            self._at = end + 1
        else:
            self._set_flags(at)

    def _begin(self, opening: str) -> None:
        self._parts.append(opening)
        self._groups.append(_Group())

    def _set_flags(self, at: int) -> None:
        """Parse the flags `(?i)` for the rest of the current group, or `(?i:` for a new group."""
        text = self._pattern
        found = re.compile(r"\(\?(?:[imsU]*(?:-[imsU]+)?)([:)])").match(text, at)
        if found is None:
            wrong = re.compile(r"\(\?[imsU]*(?:-[imsU]*)?.?", re.DOTALL).match(text, at)
            assert wrong is not None
            raise _Mistake("invalid or unsupported Perl syntax", wrong[0])
        self._at = found.end()
        if found[1] == ":":
            self._begin(found[0])
        elif found[0] != "(?)":
            self._parts.append(found[0])

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise _Mistake("unexpected )", self._pattern)
        group = self._groups.pop()
        self._add(")", tuple(each for repeats in group.atoms for each in repeats))

    # Repetitions

    def _repeat_counted(self, at: int, counts: re.Match[str], repeated_at: int | None) -> None:
        least, most = int(counts[1]), int(counts[3] or -1) if counts[2] else int(counts[1])
        if max(least, most) > _MOST_REPEATS or 0 <= most < least:
            raise _Mistake("invalid repeat count", self._pattern[at : self._at])
        self._repeat(at, least if most < 0 else most, repeated_at)

    def _repeat(self, at: int, count: int, repeated_at: int | None) -> None:
        text, group = self._pattern, self._groups[-1]
        self._at += text.startswith("?", self._at)
        if repeated_at is not None:
            raise _Mistake("invalid nested repetition operator", text[repeated_at : self._at])
        if len(group.atoms) == group.start:
            raise _Mistake("missing argument to repetition operator", text[at : self._at])
        counted = text[at] == "{"
        repeat = _Repeat(count if counted else 0, group.atoms[-1])
        if counted and count > 1 and not _fits(repeat, _MOST_REPEATS):
            raise _Mistake("invalid repeat count", text[at : self._at])
        self._parts.append(text[at : self._at])
        group.atoms[-1] = (repeat,)
        self._repeated_at = at

    # Characters

    def _escape(self, at: int) -> None:
        text = self._pattern
        match text[at + 1 : at + 2]:
            case "A" | "z" | "b" | "B":
                self._at = at + 2
                self._add(text[at : self._at])
            case "Q":
                end = text.find(r"\E", at)
                for character in text[at + 2 : end if end >= 0 else None]:
                    self._add(_written(ord(character)))
                self._at = end + 2 if end >= 0 else len(text)
            case _:
                self._add(self._members(at) or _written(self._escaped(at)))

    def _escaped(self, at: int) -> int:
        """Parse an escape sequence, and return the character that it denotes, as a code point."""
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
        if found is not None:
            code = 0
            for at_digit, digit in enumerate(found[1] or found[2], found.start(found.lastindex or 0)):
                code = code * 16 + int(digit, 16)
                if code > _LAST:
                    raise _Mistake("invalid escape sequence", text[at : at_digit + 1])
            self._at = found.end()
            return code
        wrong = re.compile(r"\{[0-9A-Fa-f]*.?|[0-9A-Fa-f]?.?", re.DOTALL).match(text, at + 2)
        assert wrong is not None
        raise _Mistake("invalid escape sequence", text[at : wrong.end()])

    # Classes

    def _class(self, at: int) -> None:
        text = self._pattern
        self._at += text.startswith("^", self._at)
        members = [text[at : self._at]]
        first = self._at
        while not text.startswith("]", self._at) or self._at == first:
            members.append(self._named_class() or self._members(self._at) or self._range(at))
        self._at += 1
        self._add("".join(members) + "]")

    def _named_class(self) -> str:
        """Parse a named class such as `[:alpha:]`; return "" if none begins here."""
        text, begin = self._pattern, self._at
        end = text.find(":]", begin + 2) if text.startswith("[:", begin) else -1
        if end < 0:
            return ""
        self._at = end + 2
        if text[begin + 2 : end].removeprefix("^") not in _POSIX:
            raise _Mistake("invalid character class range", text[begin : self._at])
        return text[begin : self._at]

    def _range(self, of: int) -> str:
        text, begin = self._pattern, self._at
        low = high = self._member(of)
        if text.startswith("-", self._at) and self._at + 1 < len(text) and text[self._at + 1] != "]":
            self._at += 1
            high = self._member(of)
            if high < low:
                raise _Mistake("invalid character class range", text[begin : self._at])
        return f"{_written(low)}-{_written(high)}"

    def _member(self, of: int) -> int:
        if self._at >= len(self._pattern):
            raise _Mistake("missing closing ]", self._pattern[of:])
        character = self._pattern[self._at]
        if character == "\\":
            return self._escaped(self._at)
        self._at += 1
        return ord(character)

    def _members(self, at: int) -> str:
        """Parse an escape that means a class of characters, such as digits; return "" if none begins here."""
        text = self._pattern
        found = re.compile(r"\\(?:[dDsSwW]|[pP](?:\{\^?(.*?)\}|([^{])))", re.DOTALL).match(text, at)
        if found is None:
            if re.compile(r"\\[pP].").match(text, at):
                raise _Mistake("invalid character class range", text[at:])
            return ""
        self._at = found.end()
        if text[at + 1] in "pP" and (found[1] or found[2]) not in _PROPERTIES:
            raise _Mistake("invalid character class range", found[0])
        return found[0]


def _written(code: int) -> str:
    """Return a character in a notation of RE2 that is valid both inside and outside of a class."""
    if code in _SURROGATES:  # no text has one
        return "\ufffd"
    character = chr(code)
    return character if code > _HIGHEST_ASCII or character.isalnum() else f"\\x{code:02x}"


def _fits(repeat: _Repeat, most: int) -> bool:
    """Return whether the product of nested repetition counts is at most `most`."""
    if repeat.times > most:
        return False
    most = most // repeat.times if repeat.times > 0 else most
    return all(_fits(each, most) for each in repeat.inner)
