"""String formats that the server validates in custom objects; it ignores all others."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from devcluster.quantity import parse_integer

_HEX = "[0-9a-f]"
_UUID = f"{_HEX}{{8}}-?{_HEX}{{4}}-?%s{_HEX}{{3}}-?%s{_HEX}{{3}}-?{_HEX}{{12}}"
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_DATE_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_DURATION = re.compile(r"[-+]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_LONG_DURATION = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_HOST_LABEL = re.compile(r"[^\W_](?:(?:[^\W_]|-)*[^\W_])?")
_EMAIL = re.compile(r"""(?:[^<>@]*<)?(?:[^\s<>()\[\]:;@\\,"]+|"[^"]+")@[^\s<>@]+>?""")
_SHORT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONG_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_LONG_UNITS = (
    ("ns", "nano"),
    ("us", "µs", "micro"),
    ("ms", "milli"),
    ("s", "sec"),
    ("m", "min"),
    ("h", "hr", "hour"),
    ("d", "day"),
    ("w", "wk", "week"),
)
_FRACTION_KEPT = 18
"""The digits of a fraction that count: more than an hour has nanoseconds."""
_HOST_MAXIMUM = 255
_LABEL_MAXIMUM = 63
_TOP_LEVEL_MINIMUM = 2
_NAME_MAXIMUM = 253

Check = Callable[[str], bool]


def checker_of(name: str) -> Check | None:
    """Return the check of a string format, or None for a format that the server ignores."""
    return _CHECKS.get(name.replace("-", ""))


def is_known_format(name: str, kind: str) -> bool:
    """Return whether the server knows the format `name` for values of the JSON type `kind`."""
    if kind == "integer":
        return name in {"int32", "int64"}
    if kind == "number":
        return name in {"float", "double"}
    return kind in {"", "string"} and name.replace("-", "") in _CHECKS


def parse_duration(text: str) -> int | None:
    """Parse a duration in Go's notation (`1h2m0.5s`) into nanoseconds; return None for any other text.

    A duration that does not fit into 64 bits is invalid too.
    """
    if text in {"0", "+0", "-0"}:
        return 0
    if not _DURATION.fullmatch(text):
        return None
    total = 0
    for number, unit in _DURATION_PART.findall(text):
        whole, _, fraction = number.partition(".")
        scale, fraction = _NANOSECONDS[unit], fraction[:_FRACTION_KEPT]
        units = parse_integer(whole or "0")
        if units is None:
            return None
        total += units * scale
        if fraction:
            total += int(fraction) * scale // 10 ** len(fraction)
    total = -total if text.startswith("-") else total
    return total if -(2**63) <= total < 2**63 else None


def _pattern(pattern: str, flags: int = re.ASCII) -> Check:
    match = re.compile(pattern, flags).fullmatch
    return lambda text: match(text) is not None


def _is_date(text: str) -> bool:
    matched = _DATE.fullmatch(text)
    if matched is None:
        return False
    try:
        datetime.date(*map(int, matched.groups()))
    except ValueError:
        return matched[1] == "0000"
    return True


def _is_date_time(text: str) -> bool:
    date, *times = text.lower().split("t")
    if not times or not _is_date(date):
        return False
    matched = _DATE_TIME.fullmatch(times[0])  # like the real server, ignore all text after a second "t"
    return (
        matched is not None
        and int(matched[1]) < 24  # noqa: PLR2004 -- hours of a day
        and int(matched[2]) < 60  # noqa: PLR2004 -- minutes of an hour
        and int(matched[3]) < 60  # noqa: PLR2004
    )


def _is_duration(text: str) -> bool:
    if parse_duration(text) is not None:
        return True
    found = _LONG_DURATION.findall(text)
    return any(
        unit.lower() in names or unit.lower().startswith(names[-1])
        for _, unit in found
        for names in _LONG_UNITS
    )


def _is_email(text: str) -> bool:
    return _EMAIL.fullmatch(text.strip()) is not None


def _is_hostname(text: str) -> bool:
    if len(text) > _HOST_MAXIMUM or not text:
        return False
    labels = text.split(".")
    if any(len(label) > _LABEL_MAXIMUM or not _HOST_LABEL.fullmatch(label) for label in labels):
        return False
    return len(labels) == 1 or (labels[-1].isalpha() and len(labels[-1]) >= _TOP_LEVEL_MINIMUM)


def _is_uri(text: str) -> bool:
    if " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) or text.startswith("/")


def _is_address(version: int) -> Check:
    def check(text: str) -> bool:
        if version == 4:  # noqa: PLR2004
            text = ".".join(part.lstrip("0") or "0" for part in text.split("."))
        try:
            return "%" not in text and ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdigit()):
        return False
    try:
        return int(length) <= ipaddress.ip_address(address).max_prefixlen
    except ValueError:
        return False


def _is_base64(text: str) -> bool:
    return len(text) % 4 == 0 and re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", text) is not None


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return sum((10 if each == "X" else int(each)) * (10 - at) for at, each in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(each) * (3 if at % 2 else 1) for at, each in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not re.fullmatch(
        r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}",
        digits,
    ):
        return False
    doubled = [int(each) * (2 if at % 2 else 1) for at, each in enumerate(reversed(digits))]
    return sum(each - 9 if each > 9 else each for each in doubled) % 10 == 0  # noqa: PLR2004 -- Luhn


def _short_name(text: str) -> bool:
    return len(text) <= _LABEL_MAXIMUM and _SHORT_NAME.fullmatch(text) is not None


def _long_name(text: str) -> bool:
    return len(text) <= _NAME_MAXIMUM and _LONG_NAME.fullmatch(text) is not None


_CASELESS = re.ASCII | re.IGNORECASE
_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_CHECKS: dict[str, Check] = {
    "bsonobjectid": _pattern("[0-9a-fA-F]{24}"),
    "byte": _is_base64,
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": _pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": _is_address(4),
    "ipv6": _is_address(6),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": _long_name,
    "k8sshortname": _short_name,
    "mac": _pattern(
        r"([0-9a-f]{2}([:-])(([0-9a-f]{2}\2){4}|([0-9a-f]{2}\2){6})[0-9a-f]{2}|([0-9a-f]{4}\.){2,3}[0-9a-f]{4})",
        _CASELESS,
    ),
    "password": lambda _: True,
    "rgbcolor": _pattern(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)"),
    "ssn": _pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _is_uri,
    "uuid": _pattern(_UUID % (_HEX, _HEX), _CASELESS),
    "uuid3": _pattern(_UUID % ("3", _HEX), _CASELESS),
    "uuid4": _pattern(_UUID % ("4", "[89ab]"), _CASELESS),
    "uuid5": _pattern(_UUID % ("5", "[89ab]"), _CASELESS),
}
