"""The functions that Kubernetes adds to CEL."""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, ClassVar
from urllib.parse import SplitResult, parse_qs, urlsplit

from devcluster import names
from devcluster.quantity import parse_quantity
from devcluster.schema.cel.types import (
    BOOL,
    CIDR,
    DOUBLE,
    FORMAT,
    INT,
    IP,
    QUANTITY,
    SEMVER,
    STRING,
    URL,
    CelError,
    Table,
    Type,
    function,
    list_of,
    map_of,
    method,
    no_such_overload,
    optional_of,
)
from devcluster.schema.cel.values import NONE, Optional
from devcluster.schema.formats import checker_of

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Url:
    """A parsed URL."""

    type_name: ClassVar[str] = URL.name
    parts: SplitResult


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount."""

    type_name: ClassVar[str] = QUANTITY.name
    amount: Fraction


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """An IP address."""

    type_name: ClassVar[str] = IP.name
    address: ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclasses.dataclass(frozen=True, slots=True)
class Network:
    """A network, with the address that it was written with."""

    type_name: ClassVar[str] = CIDR.name
    interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclasses.dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format that strings can be checked for."""

    type_name: ClassVar[str] = FORMAT.name
    check: Callable[[str], list[str]] = dataclasses.field(compare=False)
    name: str = ""


@functools.total_ordering
@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """A semantic version."""

    type_name: ClassVar[str] = SEMVER.name
    numbers: tuple[int, int, int]
    stage: tuple[str, ...] = ()

    def __lt__(self, other: Version) -> bool:
        return self._rank() < other._rank()

    def _rank(self) -> tuple[Any, ...]:
        stage = tuple((0, int(each), "") if each.isdigit() else (1, 0, each) for each in self.stage)
        return (self.numbers, not self.stage, stage)


def _quantity(text: str) -> Quantity:
    amount = parse_quantity(text)
    if amount is None:
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise CelError(f"quantities must match the regular expression '{pattern}'")
    return Quantity(amount)


def _as_integer(quantity: Quantity) -> int:
    if quantity.amount.denominator != 1 or not -(2**63) <= quantity.amount < 2**63:
        raise CelError("cannot convert value to integer")
    return int(quantity.amount)


def _compare(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _greater(one: Any, other: Any) -> bool:
    return bool(one > other)


def _less(one: Any, other: Any) -> bool:
    return bool(one < other)


def _plus(quantity: Quantity, other: Quantity | int) -> Quantity:
    return Quantity(quantity.amount + (other if isinstance(other, int) else other.amount))


def _minus(quantity: Quantity, other: Quantity | int) -> Quantity:
    return Quantity(quantity.amount - (other if isinstance(other, int) else other.amount))


def _split_url(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return None
    if not text or re.search(r"[\x00-\x20\x7f]", text) or not (parts.scheme or text.startswith("/")):
        return None
    return parts


def _url(text: str) -> Url:
    parts = _split_url(text)
    if parts is None:
        raise CelError(
            f'URL parse error during conversion from string: parse "{text}": invalid URI for request'
        )
    return Url(parts)


def _host(url: Url) -> str:
    return url.parts.netloc.rpartition("@")[2]


def _hostname(url: Url) -> str:
    host = _host(url)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(url: Url) -> str:
    return str(url.parts.port) if url.parts.port is not None else ""


def _query(url: Url) -> dict[str, list[str]]:
    return parse_qs(url.parts.query, keep_blank_values=True)


def _find_address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped is not None or "%" in text):
        return None
    return Address(address)


def _address(text: str) -> Address:
    found = _find_address(text)
    if found is not None:
        return found
    if "%" in text:
        raise CelError(f'IP address "{text}" with zone value is not allowed')
    if text.lower().startswith("::ffff:"):
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    why = f'ParseAddr("{text}"): unable to parse IP'
    raise CelError(f'IP Address "{text}" parse error during conversion from string: {why}')


def _find_network(text: str) -> Network | None:
    if "/" not in text or not text.rpartition("/")[2].isdigit():
        return None
    try:
        return Network(ipaddress.ip_interface(text))
    except ValueError:
        return None


def _network(text: str) -> Network:
    found = _find_network(text)
    if found is None:
        why = "prefix length out of range" if _find_address(text.partition("/")[0]) else "unable to parse IP"
        why = why if "/" in text else "no '/'"
        about = "network address parse error during conversion from string: "
        raise CelError(f'{about}{about}netip.ParsePrefix("{text}"): {why}')
    return found


def _holds_address(network: Network, address: Address | str) -> bool:
    found = _find_address(address) if isinstance(address, str) else address
    if found is None:
        raise no_such_overload()
    return found.address in network.interface.network


def _holds_network(network: Network, other: Network | str) -> bool:
    found = _find_network(other) if isinstance(other, str) else other
    if found is None:
        raise no_such_overload()
    outer, inner = network.interface.network, found.interface.network
    if isinstance(outer, ipaddress.IPv4Network) and isinstance(inner, ipaddress.IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(outer, ipaddress.IPv6Network) and isinstance(inner, ipaddress.IPv6Network):
        return inner.subnet_of(outer)
    return False


def _is_global(address: Address) -> bool:
    of = address.address
    broadcast = str(of) == "255.255.255.255"
    return not (of.is_unspecified or of.is_loopback or of.is_multicast or of.is_link_local or broadcast)


def _is_link_local_multicast(address: Address) -> bool:
    of = address.address
    if of.version == 4:  # noqa: PLR2004
        return of in ipaddress.ip_network("224.0.0.0/24")
    return of.packed[0] == 0xFF and of.packed[1] & 0x0F == 2  # noqa: PLR2004 -- scope link-local


def _find_version(text: str, normalize: bool = False) -> Version | None:
    if normalize:
        text = text.removeprefix("v")
        core, mark, rest = text.partition("-") if "-" in text else text.partition("+")
        parts = [each.lstrip("0") or "0" for each in core.split(".")]
        text = ".".join([*parts, "0", "0"][:3]) + mark + rest
    matched = _SEMVER.fullmatch(text)
    if matched is None:
        return None
    major, minor, patch, stage, _ = matched.groups()
    return Version((int(major), int(minor), int(patch)), tuple(stage.split(".")) if stage else ())


def _version(text: str, normalize: bool = False) -> Version:
    found = _find_version(text, normalize)
    if found is None:
        raise CelError("No Major.Minor.Patch elements found")
    return found


def _format_check(name: str) -> Callable[[str], list[str]]:
    check = checker_of(name)
    assert check is not None
    wrong = {
        "uri": "invalid URI",
        "uuid": "does not match the UUID format",
        "byte": "invalid base64",
        "date": "invalid date",
        "datetime": "invalid datetime",
    }[name]
    return lambda text: [] if check(text) else [wrong]


def _prefixed(check: Callable[..., list[str]]) -> Callable[[str], list[str]]:
    return lambda text: check(text, prefix=True)


_FORMATS = {
    name: NamedFormat(check, name)
    for name, check in {
        "dns1123Label": names.dns_label,
        "dns1123Subdomain": names.dns_subdomain,
        "dns1035Label": names.dns_label_1035,
        "dns1123LabelPrefix": _prefixed(names.dns_label),
        "dns1123SubdomainPrefix": _prefixed(names.dns_subdomain),
        "dns1035LabelPrefix": _prefixed(names.dns_label_1035),
        "qualifiedName": names.label_key,
        "labelValue": names.label_value,
        **{name: _format_check(name) for name in ("uri", "uuid", "byte", "date", "datetime")},
    }.items()
}


def _validate(form: NamedFormat, text: str) -> Optional:
    wrong = form.check(text)
    return Optional(wrong) if wrong else NONE


def _named(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


FUNCTIONS: Table = {
    "url": [function((STRING,), URL, _url)],
    "isURL": [function((STRING,), BOOL, lambda text: _split_url(text) is not None)],
    "getScheme": [method((URL,), STRING, lambda url: url.parts.scheme)],
    "getHost": [method((URL,), STRING, _host)],
    "getHostname": [method((URL,), STRING, _hostname)],
    "getPort": [method((URL,), STRING, _port)],
    "getEscapedPath": [method((URL,), STRING, lambda url: url.parts.path)],
    "getQuery": [method((URL,), map_of(STRING, list_of(STRING)), _query)],
    "quantity": [function((STRING,), QUANTITY, _quantity)],
    "isQuantity": [function((STRING,), BOOL, lambda text: parse_quantity(text) is not None)],
    "sign": [function((QUANTITY,), INT, lambda quantity: _compare(quantity.amount, 0))],
    "isGreaterThan": [method((each, each), BOOL, _greater) for each in (QUANTITY, SEMVER)],
    "isLessThan": [method((each, each), BOOL, _less) for each in (QUANTITY, SEMVER)],
    "compareTo": [method((each, each), INT, _compare) for each in (QUANTITY, SEMVER)],
    "asApproximateFloat": [method((QUANTITY,), DOUBLE, lambda quantity: float(quantity.amount))],
    "asInteger": [method((QUANTITY,), INT, _as_integer)],
    "isInteger": [method((QUANTITY,), BOOL, lambda quantity: quantity.amount.denominator == 1)],
    "add": [method((QUANTITY, each), QUANTITY, _plus) for each in (QUANTITY, INT)],
    "sub": [method((QUANTITY, each), QUANTITY, _minus) for each in (QUANTITY, INT)],
    "ip": [
        function((STRING,), IP, _address),
        method((CIDR,), IP, lambda network: Address(network.interface.ip)),
    ],
    "isIP": [function((STRING,), BOOL, lambda text: _find_address(text) is not None)],
    "ip.isCanonical": [function((STRING,), BOOL, lambda text: str(_address(text).address) == text)],
    "family": [method((IP,), INT, lambda address: address.address.version)],
    "isUnspecified": [method((IP,), BOOL, lambda address: address.address.is_unspecified)],
    "isLoopback": [method((IP,), BOOL, lambda address: address.address.is_loopback)],
    "isLinkLocalMulticast": [method((IP,), BOOL, _is_link_local_multicast)],
    "isLinkLocalUnicast": [method((IP,), BOOL, lambda address: address.address.is_link_local)],
    "isGlobalUnicast": [method((IP,), BOOL, _is_global)],
    "cidr": [function((STRING,), CIDR, _network)],
    "isCIDR": [function((STRING,), BOOL, lambda text: _find_network(text) is not None)],
    "containsIP": [method((CIDR, each), BOOL, _holds_address) for each in (STRING, IP)],
    "containsCIDR": [method((CIDR, each), BOOL, _holds_network) for each in (STRING, CIDR)],
    "prefixLength": [method((CIDR,), INT, lambda network: network.interface.network.prefixlen)],
    "masked": [
        method((CIDR,), CIDR, lambda network: Network(ipaddress.ip_interface(str(network.interface.network))))
    ],
    "string": [
        function((IP,), STRING, lambda address: str(address.address)),
        function((CIDR,), STRING, lambda network: str(network.interface)),
    ],
    "semver": [
        function((STRING,), SEMVER, _version),
        function((STRING, BOOL), SEMVER, _version),
    ],
    "isSemver": [
        function((STRING,), BOOL, lambda text: _find_version(text) is not None),
        function((STRING, BOOL), BOOL, lambda text, loose: _find_version(text, loose) is not None),
    ],
    "major": [method((SEMVER,), INT, lambda version: version.numbers[0])],
    "minor": [method((SEMVER,), INT, lambda version: version.numbers[1])],
    "patch": [method((SEMVER,), INT, lambda version: version.numbers[2])],
    "jsonpatch.escapeKey": [
        function((STRING,), STRING, lambda text: text.replace("~", "~0").replace("/", "~1"))
    ],
    "validate": [method((FORMAT, STRING), optional_of(list_of(STRING)), _validate)],
    "format.named": [function((STRING,), optional_of(FORMAT), _named)],
    **{f"format.{name}": [function((), FORMAT, _constant(form))] for name, form in _FORMATS.items()},
}


AUTHORIZER = Type("kubernetes.authorization.Authorizer")
DECISION = Type("kubernetes.authorization.Decision")


@dataclasses.dataclass(frozen=True, slots=True)
class Authority:
    """An authorizer with what is asked so far."""

    type_name: ClassVar[str] = AUTHORIZER.name
    decide: Callable[[Mapping[str, str]], tuple[bool, str]]
    """Returns whether the action with these attributes is allowed, and the reason."""
    asked: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def asking(self, name: str, value: str) -> Authority:
        """Return the authorizer with one more attribute."""
        return Authority(self.decide, {**self.asked, name: value})


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check."""

    type_name: ClassVar[str] = DECISION.name
    allowed: bool
    reason: str


def _asks(name: str) -> Callable[[Authority, str], Authority]:
    return lambda authority, value: authority.asking(name, value)


def _check(authority: Authority, verb: str) -> Verdict:
    return Verdict(*authority.decide({**authority.asked, "verb": verb}))


def _account(authority: Authority, namespace: str, name: str) -> Authority:
    return authority.asking("account", f"system:serviceaccount:{namespace}:{name}")


AUTHORIZATION: Table = {
    **{
        name: [method((AUTHORIZER, STRING), AUTHORIZER, _asks(name))]
        for name in ("group", "resource", "subresource", "namespace", "name", "path")
    },
    "serviceAccount": [method((AUTHORIZER, STRING, STRING), AUTHORIZER, _account)],
    "check": [method((AUTHORIZER, STRING), DECISION, _check)],
    "allowed": [method((DECISION,), BOOL, lambda verdict: verdict.allowed)],
    "reason": [method((DECISION,), STRING, lambda verdict: verdict.reason)],
    "errored": [method((DECISION,), BOOL, lambda _: False)],
    "error": [method((DECISION,), STRING, lambda _: "")],
}
