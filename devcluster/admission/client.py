"""A client for admission webhooks and for conversion webhooks."""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import math
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from devcluster.quantity import quoted
from devcluster.storage.records import Key
from devcluster.storage.store import Store

if TYPE_CHECKING:
    import aiohttp

Object = dict[str, Any]

AnswerHere = Callable[[bytes, float], Awaitable[tuple[int, bytes | bytearray]]]
"""An in-process webhook: it gets the review and the timeout in seconds, and returns HTTP status and body."""

_MOST_CONTEXTS = 100
_ANSWER_LIMIT = 16 << 20
_SUCCESS = range(200, 300)

_GO_HEAD = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_REFUSALS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "forbidden",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    415: "the server does not support the media type",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the "
    "request",
}


class WebhookFailed(Exception):
    """Error for a failed call of a webhook, or an invalid response; the message is the real server's."""


class WebhookClient:
    """Client that posts reviews to webhooks over persistent HTTPS connections. Call `close` at the end.

    A service is called only if it has an external name, or an endpoint that is not a pod. Pods of devcluster
    run no programs, so no server listens at their addresses.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.here: dict[str, AnswerHere] = {}
        """In-process handlers by URL; the client calls them without a network connection."""
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, client_config: Object, review: Object, timeout: float) -> Object:
        """Post `review` and return the response; raise WebhookFailed after `timeout` seconds or an error."""
        if (answer := self.here.get(client_config.get("url", ""))) is not None:
            status, found = await answer(orjson.dumps(review), timeout)
            return _decoded(status, bytes(found), is_text=False)
        import aiohttp  # noqa: PLC0415 - 65 ms, 9 MB, and most clusters in a test have no webhook

        if self._session is None:
            self._session = aiohttp.ClientSession()
        shown, connect_to, server_name = self._where(client_config, f"timeout={math.ceil(timeout)}s")
        address = urlsplit(shown)._replace(netloc=connect_to).geturl() if connect_to else shown
        try:
            async with self._session.post(
                address,
                data=orjson.dumps(review),
                headers={"Content-Type": "application/json", "Accept": "application/json, */*"}
                | ({"Host": server_name} if connect_to else {}),
                ssl=self._context(client_config.get("caBundle", "")),
                server_hostname=server_name or None,
                timeout=aiohttp.ClientTimeout(total=timeout),
                allow_redirects=False,
            ) as response:
                body = bytearray()
                async for part in response.content.iter_any():
                    body += part
                    if len(body) > _ANSWER_LIMIT:
                        raise WebhookFailed(f"Post {quoted(shown)}: the answer is too large")
                is_text = response.content_type.startswith("text/")
                return _decoded(response.status, bytes(body), is_text=is_text)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise WebhookFailed(f"Post {quoted(shown)}: {_explained(error, address)}") from error

    def _where(self, client_config: Object, query: str) -> tuple[str, str, str]:
        """Return the URL for error messages and, for a service, the address to dial and the TLS name."""
        if client_config.get("url"):
            url = client_config["url"]
            return f"{url}{'&' if '?' in url else '?'}{query}", "", ""
        service = client_config.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        port = service.get("port") or 443
        server_name = f"{name}.{namespace}.svc"
        path = service.get("path") or "/"
        url = f"https://{server_name}:{port}/{path.removeprefix('/')}?{query}"
        return url, self._address_of(namespace, name, port, url), server_name

    def _address_of(self, namespace: str, name: str, port: int, url: str) -> str:
        stored = self._store.get(Key("", "services", namespace, name))
        if stored is None:
            raise WebhookFailed(f"Post {quoted(url)}: service {quoted(name)} not found")
        spec = stored.decode().get("spec") or {}
        if spec.get("type") == "ExternalName":
            return f"{spec['externalName']}:{port}"
        wanted = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
        if wanted is None:
            raise WebhookFailed(f'Post {quoted(url)}: no service port {port} found for service "{name}"')
        for stored in self._store.select("discovery.k8s.io", "endpointslices", namespace):
            if stored.labels.get("kubernetes.io/service-name") != name:
                continue
            endpoint_slice = stored.decode()
            ports = [
                each["port"]
                for each in endpoint_slice.get("ports") or ()
                if each.get("name", "") == wanted.get("name", "") and each.get("port")
            ]
            for endpoint in endpoint_slice.get("endpoints") or ():
                if ports and not endpoint.get("targetRef") and endpoint.get("addresses"):
                    return f"{endpoint['addresses'][0]}:{ports[0]}"
        address = spec.get("clusterIP", "")
        raise WebhookFailed(f"Post {quoted(url)}: dial tcp {address}:{port}: connect: connection refused")

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            try:
                authorities = base64.b64decode(bundle).decode("ascii")
                context = ssl.create_default_context(cadata=authorities or None)
                # Go trusts every authority in a bundle, even one that violates RFC 5280.
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
                context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
                raise WebhookFailed(
                    "unable to load root certificates: unable to parse bytes as PEM block"
                ) from error
            if len(self._contexts) >= _MOST_CONTEXTS:
                self._contexts.clear()
            self._contexts[bundle] = context
        return context


def _decoded(status: int, body: bytes, *, is_text: bool) -> Object:
    """Parse the object in a response; raise WebhookFailed with client-go's message for anything else."""
    if status not in _SUCCESS:
        raise WebhookFailed(_refusal(status, body if is_text or body[:1] == b"{" else b""))
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        # The server then parses the response as YAML, which accepts most texts as strings.
        answer = ""
    if not isinstance(answer, dict):
        found = {list: "array", str: "string", bool: "bool"}.get(type(answer), "number")
        problem = f"json: cannot unmarshal {found} into Go value of type {_GO_HEAD}"
        raise WebhookFailed(f"couldn't get version/kind; json parse error: {problem}")
    return answer


def _refusal(status: int, body: bytes) -> str:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if isinstance(answer, dict) and answer.get("kind") == "Status" and answer.get("message"):
        return str(answer["message"])
    if status in _REFUSALS:
        return _REFUSALS[status]
    text = body.decode("utf-8", "replace").strip() or "unknown"
    if status >= 500:  # noqa: PLR2004 -- the server's fault
        return f"an error on the server ({quoted(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


def _explained(error: Exception, url: str) -> str:
    """Return the message that Go's HTTP client would give for a failed connection."""
    import aiohttp  # noqa: PLC0415 - as above

    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return "context deadline exceeded"
    parts = urlsplit(url)
    try:
        target = f"{parts.hostname}:{parts.port or 443}"
    except ValueError:
        return f"dial tcp: address {parts.netloc.rpartition(':')[2]}: invalid port"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {_untrusted(error, parts.hostname)}"
    # A UnicodeError means that the host has an empty or a too long label.
    if isinstance(error, (aiohttp.ClientConnectorDNSError, UnicodeError)):
        return f"dial tcp: lookup {parts.hostname}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        known = {errno.ECONNREFUSED: "connection refused", errno.EHOSTUNREACH: "no route to host"}
        if number in known:
            return f"dial tcp {target}: connect: {known[number]}"
        return f"dial tcp {target}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _untrusted(error: aiohttp.ClientConnectorCertificateError, host: str | None) -> str:
    reason = str(error.certificate_error)
    if "mismatch" in reason:
        return f"certificate is not valid for any names, but wanted to match {host}"
    if "expired" in reason:
        return "certificate has expired or is not yet valid"
    return "certificate signed by unknown authority"
