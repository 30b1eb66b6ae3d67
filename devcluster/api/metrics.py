"""The API server's request metrics, counted as the real server counts them."""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from time import perf_counter
from typing import Final

from devcluster.access.rbac import Attributes
from devcluster.api.interfaces import Call
from devcluster.api.negotiation import split_media_type
from devcluster.api.patching import APPLY
from devcluster.http_call import ApiRequest, ApiResponse

DURATIONS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0),
    *(3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
"""Bounds of request durations, in seconds."""
SIZES: Final = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
"""Bounds of response sizes, in bytes."""
_SERVER: Final = "apiserver"
_VERBS: Final = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_CONNECTING: Final = frozenset({"log", "exec", "portforward", "attach", "proxy"})
"""Subresources whose requests have the verb `CONNECT`, for every HTTP method."""
_READING: Final = frozenset({"GET", "LIST"})
_READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PAGES: Final = {
    "/healthz": ("/healthz", ""),
    "/livez": ("/livez", ""),
    "/readyz": ("/readyz", ""),
    "/api": ("api", _SERVER),
    "/apis": ("apis", _SERVER),
    "/openapi/v3": ("openapi/v3", ""),
}
"""Counted paths without resources, each with its labels `subresource` and `component`."""
_OPENAPI: Final = "/openapi/v3/"
_ONE_NAME: Final = re.compile(r"(?:^|,)metadata\.name==?[^,=]")
_REMOVED: Final = re.compile(r"unavailable in v(\d+\.\d+)\+")
_METHOD_NOT_ALLOWED: Final = 405
_SECOND: Final = 1.0


@dataclasses.dataclass(slots=True)
class Histogram:
    """Histogram with the number of values in each bucket; the last bucket is above all bounds."""

    bounds: Sequence[float]
    counts: list[int] = dataclasses.field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclasses.dataclass(slots=True)
class Series:
    """Metrics of the requests whose labels are equal, except the label for the status code."""

    verb: str
    dry_run: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""
    component: str = _SERVER
    codes: Counter[int] = dataclasses.field(default_factory=Counter)
    seconds: Histogram = dataclasses.field(default_factory=lambda: Histogram(DURATIONS))
    sizes: Histogram = dataclasses.field(default_factory=lambda: Histogram(SIZES))

    def count(self, code: int, seconds: float, size: int) -> None:
        self.codes[code] += 1
        self.seconds.observe(seconds)
        if self.verb in _READING:
            self.sizes.observe(size)


class InFlight:
    """Counter of the requests that are in progress."""

    def __init__(self) -> None:
        self._count = 0
        self._most = 0
        self._since = 0.0

    def enter(self, now: float) -> None:
        self._count += 1
        if now - self._since > _SECOND:
            self._since, self._most = now, self._count
        elif self._count > self._most:
            self._most = self._count

    def leave(self) -> None:
        self._count -= 1

    def most(self, now: float) -> int:
        """Return the highest number of concurrent requests within about the last second."""
        return self._most if now - self._since <= _SECOND else self._count


class Metrics:
    """Metrics of the server's requests, which `/metrics` exports. Counting takes a few microseconds."""

    def __init__(self) -> None:
        self.series: dict[tuple[str | bool, ...], Series] = {}
        self.open: Counter[tuple[str, ...]] = Counter()
        """Open long-running requests by verb, group, version, resource, subresource and scope."""
        self.events: Counter[tuple[str, str, str]] = Counter()
        """Watch events sent, by group, version and resource."""
        self.deprecated: set[tuple[str, str, str, str, str]] = set()
        """Requested deprecated APIs: group, version, resource, subresource and removal release."""
        self.reading = InFlight()
        self.writing = InFlight()
        self._lasting = InFlight()

    def in_flight(self, request: ApiRequest, target: Attributes) -> InFlight:
        """Return the counter of the request's class: reads, writes or long-running requests."""
        if target.verb == "watch" or target.subresource in _CONNECTING:
            return self._lasting
        return self.reading if request.method in _READING_METHODS else self.writing

    def count_page(self, target: Attributes, answer: ApiResponse, since: float) -> None:
        """Count a request without a resource; `since` is the value of `time.perf_counter()` at its start."""
        path = target.path
        page = _PAGES.get(path) or (("openapi/v3/", "") if path.startswith(_OPENAPI) else None)
        if page is None:
            return
        method = target.verb.upper()
        key = (method, *page)
        series = self.series.get(key)
        if series is None:
            series = self.series[key] = Series(method, "", subresource=page[0], component=page[1])
        series.count(answer.status, perf_counter() - since, len(answer.body))

    def count(self, call: Call, verb: str, answer: ApiResponse, since: float) -> None:
        """Count a request to a resource, or a stream after its end; `since` as in `count_page`.

        Responses with status 405 are not counted.
        """
        if answer.status == _METHOD_NOT_ALLOWED:
            return
        resource, request = call.resource, call.request
        dry_run = _dry_run(request.query.get("dryRun"))
        applies = verb == "patch" and split_media_type(request.headers.get("content-type", "")) == APPLY
        key = (
            resource.group,
            resource.version,
            resource.plural,
            call.subresource,
            verb,
            bool(call.name),
            bool(call.namespace),
            dry_run,
            applies,
        )
        series = self.series.get(key)
        if series is None:
            if call.subresource and call.subresource not in resource.subresources:
                return
            series = self.series[key] = self._begin(call, verb, dry_run=dry_run, applies=applies)
        if answer.stream is None:
            series.count(answer.status, perf_counter() - since, len(answer.body))
        else:
            answer.stream = self._counted(call, series, answer, answer.stream, since)

    def _begin(self, call: Call, verb: str, *, dry_run: str, applies: bool) -> Series:
        resource = call.resource
        if resource.deprecation:
            removed = _REMOVED.search(resource.deprecation)
            names = (resource.group, resource.version, resource.plural, call.subresource)
            self.deprecated.add((*names, removed[1] if removed else ""))
        shown = "APPLY" if applies else _VERBS.get(verb, "other")
        return Series(
            verb="CONNECT" if call.subresource in _CONNECTING else shown,
            dry_run=dry_run,
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            subresource=call.subresource,
            scope=_scope(call, verb),
        )

    def _counted(
        self, call: Call, series: Series, answer: ApiResponse, stream: AsyncIterator[bytes], since: float
    ) -> AsyncIterator[bytes]:
        """Wrap a stream, which counts as open until it ends or is closed."""
        # The real server also counts a watch of one name in this scope here, but not in the request counters.
        scope = "resource" if _ONE_NAME.search(call.request.option("fieldSelector")) else series.scope
        where = (series.verb, series.group, series.version, series.resource, series.subresource, scope)
        what = (series.group, series.version, series.resource)

        def sent(part: bytes) -> None:
            if series.verb == "WATCH":
                self.events[what] += part.count(b"\n")

        def ended() -> None:
            self.open[where] -= 1
            series.count(answer.status, perf_counter() - since, 0)

        self.open[where] += 1
        return _Stream(stream, sent, ended)


class _Stream(AsyncIterator[bytes]):
    """A stream that reports its chunks and its end."""

    def __init__(
        self, stream: AsyncIterator[bytes], sent: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._sent = sent
        self._ended: Callable[[], None] | None = ended

    async def __anext__(self) -> bytes:
        try:
            part = await anext(self._stream)
        except BaseException:
            self._end()
            raise
        self._sent(part)
        return part

    async def aclose(self) -> None:
        self._end()
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()

    def _end(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()


def _scope(call: Call, verb: str) -> str:
    if call.name or verb == "create":
        return "resource"
    return "namespace" if call.namespace else "cluster"


def _dry_run(values: Sequence[str] | None) -> str:
    if values is None:
        return ""
    return "All" if set(values) == {"All"} else "invalid"
