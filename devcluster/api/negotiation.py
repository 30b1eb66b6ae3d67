"""Content negotiation: the choice of a response's representation by the Accept header."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from typing import Any

import msgspec
import orjson
import yaml

from devcluster.errors import StatusError, not_acceptable
from devcluster.http_call import ApiResponse

META_GROUP = "meta.k8s.io"
_JSON, _YAML, _PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
_TYPES = (_JSON, _YAML, _PROTOBUF)
_TRANSFORMS = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
_VERSIONS = frozenset({"v1", "v1beta1"})
_LONG = 64 << 10
"""The size of JSON in bytes above which a thread converts it to YAML, which takes 10 ms or more."""
_LISTED = frozenset({"items", "rows"})
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])
_ONLY = "only the following media types are accepted: "


@dataclasses.dataclass(frozen=True, slots=True)
class Representation:
    """The media type and transformation of a response."""

    media_type: str = _JSON
    transform: str = ""
    """`Table`, `PartialObjectMetadata`, `PartialObjectMetadataList`, or empty for the object itself."""
    version: str = "v1"
    """The version of the group meta.k8s.io, if there is a transform."""

    @property
    def api_version(self) -> str:
        """Return the apiVersion of a transformed response, such as a Table."""
        return f"{META_GROUP}/{self.version}"


PLAIN = Representation()


@functools.lru_cache(maxsize=512)
def negotiate(accept: str, *, custom: bool = False, stream: bool = False) -> Representation:
    """Choose the representation for an `Accept` header.

    Clients that ask for protobuf get JSON; every client that reads protobuf reads JSON too.

    Raises:
        StatusError: 406, the server offers no media type that the header accepts.
    """
    if not accept or accept == _JSON:
        return PLAIN
    offered = _TYPES[:2] if custom else _TYPES
    matched = False
    for media_type, parameters in _clauses(accept):
        for candidate in offered:
            if not _covers(media_type, candidate):
                continue
            matched = True
            chosen = _JSON if candidate == _PROTOBUF else candidate
            if stream and chosen == _YAML:
                continue
            transform, group, version = (parameters.get(name, "") for name in ("as", "g", "v"))
            if not (transform or group or version):
                return Representation(chosen)
            if (
                transform in _TRANSFORMS
                and group == META_GROUP
                and version in _VERSIONS
                and candidate != _PROTOBUF
            ):
                return Representation(chosen, transform, version)
    if matched or custom:
        streams = [f"{each};stream=watch" for each in _TYPES if each != _YAML]
        raise not_acceptable(_ONLY + ", ".join(streams if stream else _TYPES))
    listed = ", ".join([*_TYPES, f"{_JSON};stream=watch", f"{_PROTOBUF};stream=watch"])
    error = not_acceptable(f"406: Not Acceptable\n\nAvailable representations: {listed}")
    error.empty_details = True
    raise error


async def encode(value: Any, representation: Representation, *, status: int = 200) -> ApiResponse:
    """Encode a response as JSON or, if requested, as YAML; `value` may be bytes of encoded JSON."""
    body = value if isinstance(value, bytes) else orjson.dumps(value)
    if representation.media_type != _YAML:
        return ApiResponse(status=status, body=body + b"\n")
    body = await asyncio.to_thread(_yaml, body) if len(body) > _LONG else _yaml(body)
    return ApiResponse(status=status, content_type=_YAML, body=body)


def split_media_type(header: str) -> str:
    """Return the media type in lower case, without parameters."""
    return header.partition(";")[0].strip().lower()


def failure(error: StatusError, accept: str) -> ApiResponse:
    """Build the response for `error`, in YAML if the client prefers YAML."""
    answer = ApiResponse.failure(error)
    if _YAML in accept:
        try:
            yaml = negotiate(accept).media_type == _YAML
        except StatusError:
            yaml = False
        if yaml:
            answer.content_type, answer.body = _YAML, _yaml(orjson.dumps(error.to_status()))
    return answer


def _yaml(value: bytes) -> bytes:
    """Convert a JSON object to YAML; list items are decoded one by one, because decoding holds the GIL."""

    def dump(part: Any) -> bytes:
        dumped: bytes = yaml.dump(part, Dumper=_yaml_dumper(), allow_unicode=True, encoding="utf-8")
        return dumped

    parts: list[bytes] = []
    for name, raw in sorted(_fields.decode(value).items()):
        items = _items.decode(raw) if name in _LISTED and memoryview(raw)[:1].tobytes() == b"[" else []
        if items:
            parts += f"{name}:\n".encode(), *(dump([msgspec.json.decode(each)]) for each in items)
        else:
            parts.append(dump({name: msgspec.json.decode(raw)}))
    return b"".join(parts)


@functools.cache
def _yaml_dumper() -> Any:
    """Return a YAML dumper that quotes texts such as `yes` or `1`, as Go's library does."""
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper: Any = type("_Dumper", (base,), {})
    text = "tag:yaml.org,2002:str"

    def represent(dumper: Any, value: str) -> Any:
        plain = dumper.resolve(yaml.ScalarNode, value, (True, False)) == text
        return dumper.represent_scalar(text, value, style=None if plain else '"')

    dumper.add_representer(str, represent)
    return dumper


def _clauses(header: str) -> list[tuple[str, dict[str, str]]]:
    """Parse an Accept header; return its clauses in order of preference."""
    found = []
    for text in header.split(","):
        media_type, *parts = (part.strip() for part in text.split(";"))
        parameters = dict(part.partition("=")[::2] for part in parts if "=" in part)
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        kind, _, subtype = media_type.partition("/")
        if kind and (subtype or kind == "*"):
            found.append((-quality, kind == "*", subtype in {"*", ""}, media_type.lower(), parameters))
    found.sort(key=lambda clause: clause[:3])
    return [(media_type, parameters) for *_, media_type, parameters in found]


def _covers(wanted: str, offered: str) -> bool:
    kind, _, subtype = wanted.partition("/")
    if kind == "*":
        return subtype in {"*", ""}
    offered_kind, _, offered_subtype = offered.partition("/")
    return kind == offered_kind and subtype in {"*", offered_subtype}
