"""Functions that Kubernetes adds to CEL."""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import operator
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

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


@functools.total_ordering
@dataclasses.dataclass(frozen=True, slots=True)
class Opaque:
    """Value of one of the types that Kubernetes adds to CEL: URL, quantity, IP, CIDR, semver or format."""

    type_name: str
    value: Any

    def __lt__(self, other: Opaque) -> bool:
        return bool(self.value < other.value)


@functools.total_ordering
@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """Semantic version; `stage` has the parts of its pre-release."""

    numbers: tuple[int, int, int]
    stage: tuple[str, ...] = ()

    def __lt__(self, other: Version) -> bool:
        return self._rank() < other._rank()

    def _rank(self) -> tuple[Any, ...]:
        stage = tuple((0, int(each), "") if each.isdigit() else (1, 0, each) for each in self.stage)
        return (self.numbers, not self.stage, stage)


def _maker(kind: Type, read: Callable[..., Any]) -> Callable[..., Opaque]:
    return lambda *args: Opaque(kind.name, read(*args))


def _on(read: Callable[[Any], Any]) -> Callable[[Opaque], Any]:
    """Return a function that applies `read` to the content of an opaque value."""
    return lambda of: read(of.value)


def _quantity(text: str) -> Fraction:
    amount = parse_quantity(text)
    if amount is None:
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise CelError(f"quantities must match the regular expression '{pattern}'")
    return amount


def _as_integer(amount: Fraction) -> int:
    if amount.denominator != 1 or not -(2**63) <= amount < 2**63:
        raise CelError("cannot convert value to integer")
    return int(amount)


def _compare(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _sum(factor: int) -> Callable[[Opaque, Opaque | int], Opaque]:
    return lambda one, other: Opaque(
        QUANTITY.name, one.value + factor * (other if isinstance(other, int) else other.value)
    )


def _split_url(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return None
    if not text or re.search(r"[\x00-\x20\x7f]", text) or not (parts.scheme or text.startswith("/")):
        return None
    return parts


def _url(text: str) -> SplitResult:
    parts = _split_url(text)
    if parts is None:
        raise CelError(
            f'URL parse error during conversion from string: parse "{text}": invalid URI for request'
        )
    return parts


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]


def _hostname(url: SplitResult) -> str:
    host = _host(url)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _find_address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    return None if mapped or "%" in text else address


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


def _find_network(text: str) -> Interface | None:
    """Parse a CIDR, and keep the address that the text contains; return None for any other text."""
    if "/" not in text or not text.rpartition("/")[2].isdigit():
        return None
    try:
        return ipaddress.ip_interface(text)
    except ValueError:
        return None


def _network(text: str) -> Interface:
    found = _find_network(text)
    if found is None:
        why = "prefix length out of range" if _find_address(text.partition("/")[0]) else "unable to parse IP"
        why = why if "/" in text else "no '/'"
        about = "network address parse error during conversion from string: "
        raise CelError(f'{about}{about}netip.ParsePrefix("{text}"): {why}')
    return found


def _holds_address(network: Opaque, address: Opaque | str) -> bool:
    found = _find_address(address) if isinstance(address, str) else address.value
    if found is None:
        raise no_such_overload()
    return found in network.value.network


def _holds_network(network: Opaque, other: Opaque | str) -> bool:
    found = _find_network(other) if isinstance(other, str) else other.value
    if found is None:
        raise no_such_overload()
    outer, inner = network.value.network, found.network
    return outer.version == inner.version and bool(inner.subnet_of(outer))


def _is_global(of: Address) -> bool:
    broadcast = str(of) == "255.255.255.255"
    return not (of.is_unspecified or of.is_loopback or of.is_multicast or of.is_link_local or broadcast)


def _is_link_local_multicast(of: Address) -> bool:
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


def _format_check(name: str, wrong: str) -> Callable[[str], list[str]]:
    check = checker_of(name)
    assert check is not None
    return lambda text: [] if check(text) else [wrong]


_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_label_1035,
    "dns1123LabelPrefix": functools.partial(names.dns_label, prefix=True),
    "dns1123SubdomainPrefix": functools.partial(names.dns_subdomain, prefix=True),
    "dns1035LabelPrefix": functools.partial(names.dns_label_1035, prefix=True),
    "qualifiedName": names.label_key,
    "labelValue": names.label_value,
    "uri": _format_check("uri", "invalid URI"),
    "uuid": _format_check("uuid", "does not match the UUID format"),
    "byte": _format_check("byte", "invalid base64"),
    "date": _format_check("date", "invalid date"),
    "datetime": _format_check("datetime", "invalid datetime"),
}


def _validate(form: Opaque, text: str) -> Optional:
    wrong = _FORMATS[form.value](text)
    return Optional(wrong) if wrong else NONE


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


FUNCTIONS: Table = {
    "url": [function((STRING,), URL, _maker(URL, _url))],
    "isURL": [function((STRING,), BOOL, lambda text: _split_url(text) is not None)],
    "getScheme": [method((URL,), STRING, _on(lambda url: url.scheme))],
    "getHost": [method((URL,), STRING, _on(_host))],
    "getHostname": [method((URL,), STRING, _on(_hostname))],
    "getPort": [method((URL,), STRING, _on(lambda url: "" if url.port is None else str(url.port)))],
    "getEscapedPath": [method((URL,), STRING, _on(lambda url: url.path))],
    "getQuery": [
        method(
            (URL,),
            map_of(STRING, list_of(STRING)),
            _on(lambda url: parse_qs(url.query, keep_blank_values=True)),
        )
    ],
    "quantity": [function((STRING,), QUANTITY, _maker(QUANTITY, _quantity))],
    "isQuantity": [function((STRING,), BOOL, lambda text: parse_quantity(text) is not None)],
    "sign": [function((QUANTITY,), INT, _on(lambda amount: _compare(amount, 0)))],
    "isGreaterThan": [method((each, each), BOOL, operator.gt) for each in (QUANTITY, SEMVER)],
    "isLessThan": [method((each, each), BOOL, operator.lt) for each in (QUANTITY, SEMVER)],
    "compareTo": [method((each, each), INT, _compare) for each in (QUANTITY, SEMVER)],
    "asApproximateFloat": [method((QUANTITY,), DOUBLE, _on(float))],
    "asInteger": [method((QUANTITY,), INT, _on(_as_integer))],
    "isInteger": [method((QUANTITY,), BOOL, _on(lambda amount: amount.denominator == 1))],
    "add": [method((QUANTITY, each), QUANTITY, _sum(1)) for each in (QUANTITY, INT)],
    "sub": [method((QUANTITY, each), QUANTITY, _sum(-1)) for each in (QUANTITY, INT)],
    "ip": [
        function((STRING,), IP, _maker(IP, _address)),
        method((CIDR,), IP, _maker(IP, _on(lambda network: network.ip))),
    ],
    "isIP": [function((STRING,), BOOL, lambda text: _find_address(text) is not None)],
    "ip.isCanonical": [function((STRING,), BOOL, lambda text: str(_address(text)) == text)],
    "family": [method((IP,), INT, _on(lambda address: address.version))],
    "isUnspecified": [method((IP,), BOOL, _on(lambda address: address.is_unspecified))],
    "isLoopback": [method((IP,), BOOL, _on(lambda address: address.is_loopback))],
    "isLinkLocalMulticast": [method((IP,), BOOL, _on(_is_link_local_multicast))],
    "isLinkLocalUnicast": [method((IP,), BOOL, _on(lambda address: address.is_link_local))],
    "isGlobalUnicast": [method((IP,), BOOL, _on(_is_global))],
    "cidr": [function((STRING,), CIDR, _maker(CIDR, _network))],
    "isCIDR": [function((STRING,), BOOL, lambda text: _find_network(text) is not None)],
    "containsIP": [method((CIDR, each), BOOL, _holds_address) for each in (STRING, IP)],
    "containsCIDR": [method((CIDR, each), BOOL, _holds_network) for each in (STRING, CIDR)],
    "prefixLength": [method((CIDR,), INT, _on(lambda network: network.network.prefixlen))],
    "masked": [method((CIDR,), CIDR, _maker(CIDR, _on(lambda of: ipaddress.ip_interface(str(of.network)))))],
    "string": [function((each,), STRING, _on(str)) for each in (IP, CIDR)],
    "semver": [function(each, SEMVER, _maker(SEMVER, _version)) for each in ((STRING,), (STRING, BOOL))],
    "isSemver": [
        function(each, BOOL, lambda *args: _find_version(*args) is not None)
        for each in ((STRING,), (STRING, BOOL))
    ],
    "major": [method((SEMVER,), INT, _on(lambda version: version.numbers[0]))],
    "minor": [method((SEMVER,), INT, _on(lambda version: version.numbers[1]))],
    "patch": [method((SEMVER,), INT, _on(lambda version: version.numbers[2]))],
    "jsonpatch.escapeKey": [
        function((STRING,), STRING, lambda text: text.replace("~", "~0").replace("/", "~1"))
    ],
    "validate": [method((FORMAT, STRING), optional_of(list_of(STRING)), _validate)],
    "format.named": [
        function(
            (STRING,),
            optional_of(FORMAT),
            lambda name: Optional(Opaque(FORMAT.name, name)) if name in _FORMATS else NONE,
        )
    ],
    **{f"format.{name}": [function((), FORMAT, _constant(Opaque(FORMAT.name, name)))] for name in _FORMATS},
}


AUTHORIZER = Type("kubernetes.authorization.Authorizer")
DECISION = Type("kubernetes.authorization.Decision")


@dataclasses.dataclass(frozen=True, slots=True)
class Authority:
    """Authorizer of an expression, with the attributes of the check that are known so far."""

    type_name: ClassVar[str] = AUTHORIZER.name
    decide: Callable[[Mapping[str, str]], tuple[bool, str]]
    """Returns whether the action with these attributes is allowed, and the reason."""
    asked: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def asking(self, name: str, value: str) -> Authority:
        return Authority(self.decide, {**self.asked, name: value})


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Result of an authorizer's check."""

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
