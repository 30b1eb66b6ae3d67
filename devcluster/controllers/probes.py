"""The kubelet's probes of containers with a simulated image."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from devcluster.controllers.client import Object
from devcluster.controllers.images import HttpRequest, HttpResponse, Running

__all__ = ["ProbeResult", "probe"]

_MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class ProbeResult(NamedTuple):
    """The result of a probe."""

    success: bool
    output: str = ""
    """Why it failed; of a success, a warning."""


class _ProbeFailed(Exception):
    """No answer; the kubelet's HTTP client has the same message."""


def probe(container: Object, kind: str, running: Running, address: str) -> ProbeResult:
    """Make one probe of the container: `kind` names its field, `address` is the pod's."""
    asked = container.get(kind)
    if not asked or running.ports is None or asked.get("exec"):
        return ProbeResult(True)
    action = asked.get("httpGet") or asked.get("tcpSocket") or asked["grpc"]
    if action.get("host", address) != address:
        return ProbeResult(True)  # the probe is for another host
    try:
        if "httpGet" in asked:
            return _judged(_get(container, action, running, address))
        _connect(address, _port(container, action["port"]), running)
    except _ProbeFailed as error:
        return ProbeResult(False, str(error))
    return ProbeResult(True)


def _judged(response: HttpResponse) -> ProbeResult:
    if response.status < 200 or response.status >= 400:  # noqa: PLR2004 -- the codes of success
        return ProbeResult(False, f"HTTP probe failed with statuscode: {response.status}")
    if response.status >= 300:  # noqa: PLR2004 -- it led to another host
        return ProbeResult(True, f"Probe terminated redirects, Response body: {response.body}")
    return ProbeResult(True)


def _get(container: Object, action: Object, running: Running, address: str) -> HttpResponse:
    """Ask, and follow redirects that stay at the host."""
    headers = {each["name"].lower(): each["value"] for each in action.get("httpHeaders") or ()}
    authority = f"[{address}]" if ":" in address else address
    scheme, path = action.get("scheme", "HTTP").lower(), action.get("path") or "/"
    url = f"{scheme}://{authority}:{_port(container, action['port'])}/{path.removeprefix('/')}"
    wanted_host = headers.pop("host", "")
    for _ in range(_MOST_REDIRECTS):
        response = _answer(url, wanted_host, headers, running)
        if response.status not in _REDIRECTS or not response.location:
            return response
        target = urlsplit(response.location)
        url = urljoin(url, response.location)
        if urlsplit(url).hostname != address:
            return response
        if target.netloc:
            wanted_host = ""
    raise _ProbeFailed(f'Get "{url}": stopped after {_MOST_REDIRECTS} redirects')


def _answer(url: str, host: str, headers: dict[str, str], running: Running) -> HttpResponse:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        _connect(parts.hostname or "", port, running)
    except _ProbeFailed as error:
        raise _ProbeFailed(f'Get "{url}": {error}') from None
    handler = (running.ports or {})[port]
    if handler is None:
        raise _ProbeFailed(
            f'Get "{url}": net/http: HTTP/1.x transport connection broken: malformed HTTP response'
        )
    if parts.scheme == "https":
        raise _ProbeFailed(f'Get "{url}": http: server gave HTTP response to HTTPS client')
    return handler(HttpRequest(host or parts.netloc, parts.path, headers))


def _connect(host: str, port: int, running: Running) -> None:
    if port not in (running.ports or {}):
        shown = f"[{host}]" if ":" in host else host
        raise _ProbeFailed(f"dial tcp {shown}:{port}: connect: connection refused")


def _port(container: Object, port: int | str) -> int:
    """Return the number of a port that may be named."""
    if isinstance(port, int):
        return port
    for each in container.get("ports") or ():
        if each.get("name") == port:
            return int(each["containerPort"])
    raise _ProbeFailed(f"couldn't find port: {port}")
