"""The connection from a browser on this machine to a cluster's console: the pod, a token, and a proxy."""

from __future__ import annotations

import hmac
import re
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.typedefs import Handler as Page
from aiohttp.web import Request, Response
from yarl import URL

from manager.api.resource import fields, objects, text
from manager.certificates.targets import bundle_of, hosts_of
from manager.election.lease import Lease
from manager.kube.credentials import Credentials, Obtained, one_line
from manager.kube.decoding import json_object, not_a
from manager.kube.errors import ApiError, ConfigError, Forbidden, KubeError, NotFound
from manager.kube.transport import Transport
from manager.telemetry.logs import on_one_line
from manager.util.program import Program
from manager.webhook.configurations import MUTATING, VALIDATING
from manager_console.web import answer, plain

ANY_PATH = "/{path:.*}"

_ACCOUNT = "controller-manager"
_HOST_NAME = 63
"""The maximum length of a host name."""

_POD_NAME = re.compile(r"[a-z0-9][-.a-z0-9]{0,252}")
_ENDED = ("Succeeded", "Failed")
_TOKEN_SECONDS, _RENEWED_AFTER = 3600, 2400.0

_SEE_OTHER, _UNAUTHORIZED, _FORBIDDEN, _MISDIRECTED, _BAD_GATEWAY = 303, 401, 403, 421, 502
_PATIENCE = 5.0
"""Seconds for a connection to the manager."""

_SILENCE = 90.0
"""Seconds without any data from the manager."""

_KEY = "key"
"""The query parameter with the key, in the printed address."""

_COOKIE = "console"
_OPEN = "open the address that the command has printed; it works once, in one browser\n"

_PASSED_ON = (
    "Cache-Control",
    "Content-Security-Policy",
    "Content-Type",
    "Cross-Origin-Opener-Policy",
    "Cross-Origin-Resource-Policy",
    "Location",
    "Referrer-Policy",
    "X-Content-Type-Options",
)
"""The response headers that the browser receives."""

Authorization = Callable[[str | None], Awaitable[str]]
"""Returns the Authorization header to send; for a rejected header, another header if there is one."""


class Proxy:
    """A proxy that sends a browser's requests to the console, with a user's authorization.

    The first browser that opens the address with the key gets a cookie; other browsers are refused, because
    other users may share this machine. Browsers send a cookie to all ports of a host, so the address has a
    random host name that ends in `.localhost`: browsers resolve such a name to loopback.
    """

    def __init__(
        self,
        manager: URL,
        authorization: Authorization,
        tls: ssl.SSLContext | None = None,
        *,
        named: str | None = None,
    ) -> None:
        """Set up the proxy for the console at `manager`.

        The console's certificate must be for the host name `named`; None means the host of `manager`.
        """
        self._manager = manager.origin()
        self._authorization = authorization
        self._tls = tls
        self._named = named
        self._session: ClientSession | None = None
        self._key: str | None = secrets.token_urlsafe(24)
        self._cookie = secrets.token_urlsafe(24)
        self._host = ""

    def address(self, own: str) -> str:
        """Return the URL that one browser can open once; `own` is the URL at which the proxy listens."""
        self._host = f"{secrets.token_hex(16)}.localhost:{own.rpartition(':')[2]}"
        return f"http://{self._host}/?{_KEY}={self._key}"

    def pages(self) -> Mapping[str, Page]:
        """Return the handler of GET and POST requests, which is the same for every path."""
        return {ANY_PATH: self._page}

    async def aclose(self) -> None:
        """Close all connections to the console."""
        if self._session is not None:
            await self._session.close()

    async def _page(self, request: Request) -> Response:
        if not _same(request.headers.get("Host", ""), self._host):
            return plain(_OPEN, _MISDIRECTED)
        if self._key is not None and _same(request.query.get(_KEY, ""), self._key):
            self._key = None
            cookie = f"{_COOKIE}={self._cookie}; HttpOnly; Path=/; SameSite=Strict"
            return answer(_SEE_OTHER, {"Location": "/", "Set-Cookie": cookie})
        if not any(_same(each, f"{_COOKIE}={self._cookie}") for each in _cookies(request)):
            return plain(_OPEN, _FORBIDDEN)
        if request.method == "POST" and request.headers.get("Origin") != f"http://{self._host}":
            return plain("not from a page of this console\n", _FORBIDDEN)
        try:
            return await self._sent_on(request)
        except ConfigError as error:
            return plain(f"{error}\n", _BAD_GATEWAY)
        except (ClientError, TimeoutError) as error:
            return plain(f"the manager at {self._manager} does not answer: {error}\n", _BAD_GATEWAY)

    async def _sent_on(self, request: Request) -> Response:
        rejected: str | None = None
        while True:
            header = await self._authorization(rejected)
            async with self._opened().request(
                request.method,
                URL(f"{self._manager}{request.rel_url.raw_path_qs}", encoded=True),
                headers={"Authorization": header, "Origin": f"{self._manager}"},
                allow_redirects=False,
                server_hostname=self._named,
            ) as received:
                if received.status == _UNAUTHORIZED and rejected is None:
                    rejected = header
                    continue
                headers = {name: received.headers[name] for name in _PASSED_ON if name in received.headers}
                return answer(received.status, headers, await received.read())

    def _opened(self) -> ClientSession:
        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(ssl=self._tls or True, limit=0),
                timeout=ClientTimeout(total=None, sock_connect=_PATIENCE, sock_read=_SILENCE),
                cookie_jar=DummyCookieJar(),
            )
        return self._session


def _cookies(request: Request) -> list[str]:
    return [each.strip() for header in request.headers.getall("Cookie", ()) for each in header.split(";")]


def _same(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(errors="surrogateescape"), secret.encode())


@dataclass(frozen=True, slots=True)
class Installed:
    """A deployed manager, with its namespace and the prefix of its objects' names."""

    program: Program
    namespace: str
    prefix: str

    @property
    def metrics_host(self) -> str:
        """Return the host name in the certificate of `/metrics`; the console may use that certificate."""
        return f"{self.prefix}{_ACCOUNT}-metrics-service.{self.namespace}.svc"

    async def pod(self, transport: Transport, wanted: str | None = None) -> str:
        """Return the name of the pod `wanted`; None means the leader's pod or, without a leader, any pod.

        Any client that may write the Lease can put a name into it. So the pod must run as the manager's
        account, which gives a pod all rights of the manager anyway. Raises `ConfigError` if there is no such
        pod, and `KubeError`.
        """
        account = f"{self.prefix}{_ACCOUNT}"
        labels = ",".join(f"{name}={value}" for name, value in self.program.labels.items())
        namespace = f"namespaces/{quote(self.namespace, safe='')}"
        answer = await transport.request("GET", f"/api/v1/{namespace}/pods", query={"labelSelector": labels})
        pods = objects(json_object(answer, "a list of pods").get("items"))
        names = sorted(name for pod in pods if (name := _name_of(pod, account)))
        if not names:
            raise ConfigError(
                f"no pod in namespace {self.namespace} is labelled {labels} and runs as {account}: "
                "--namespace and --name-prefix say where the manager is"
            )
        if wanted is not None:
            found, problem = [name for name in names if name == wanted], f"{wanted} is"
        elif host := await self._leader(transport, namespace):
            found = [name for name in names if _host_name(name) == host]
            problem = f"the lease names {host}, which is"
        else:
            return names[0]
        if not found:
            text = f"{problem} no pod of the manager; --pod may be one of: {', '.join(names)}"
            raise ConfigError(on_one_line(text))
        return found[0]

    async def _leader(self, transport: Transport, namespace: str) -> str:
        path = f"/apis/coordination.k8s.io/v1/{namespace}/leases/{self.program.name}"
        try:
            lease = Lease.decode(await transport.request("GET", path))
        except ApiError:
            return ""
        return lease.holder.rpartition("_")[0]

    async def trust(self, transport: Transport) -> tuple[str, bytes]:
        """Return the name in the pod's certificate and the CA bundle, from the webhook configurations.

        Raises `KubeError`.
        """
        forbidden: Forbidden | None = None
        for kind, name in (("validating", VALIDATING), ("mutating", MUTATING)):
            path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{self.prefix}{name}"
            try:
                found = json_object(await transport.request("GET", path), "a webhook configuration")
            except NotFound:
                continue
            except Forbidden as error:
                forbidden = forbidden or error
                continue
            for webhook in objects(found.get("webhooks")):
                client = fields(webhook, "clientConfig")
                service = fields(client, "service")
                hosts, bundle = hosts_of({"service": service}), bundle_of(client)
                if bundle and hosts and service.get("namespace") == self.namespace:
                    return hosts[0], bundle
        if forbidden is not None:
            raise forbidden
        raise ConfigError(
            f"no webhook configuration {self.prefix}... has a CA bundle for a Service in {self.namespace}"
        )


def _name_of(pod: Any, account: str) -> str:
    """Return the name of a live pod that runs as `account`, or as `account-…`; "" for any other pod."""
    metadata = fields(pod, "metadata")
    runs_as = text(fields(pod, "spec").get("serviceAccountName"))
    has_ended = text(fields(pod, "status").get("phase")) in _ENDED or "deletionTimestamp" in metadata
    name = text(metadata.get("name"))
    is_ours = f"{runs_as}-".startswith(f"{account}-") and not has_ended
    return name if is_ours and _POD_NAME.fullmatch(name) else ""


def _host_name(pod: str) -> str:
    """Return the host name that the kubelet gives to the pod; the holder of a Lease begins with it."""
    return pod if len(pod) <= _HOST_NAME else pod[:_HOST_NAME].rstrip("-.")


class AccountToken(Credentials):
    """Tokens of a ServiceAccount that are valid for one audience only."""

    def __init__(self, transport: Transport, namespace: str, name: str, audience: str) -> None:
        super().__init__()
        self._transport = transport
        self._account = f"{namespace}/{name}"
        place = f"namespaces/{quote(namespace, safe='')}/serviceaccounts/{quote(name, safe='')}"
        self._path = f"/api/v1/{place}/token"
        self._audience = audience

    async def obtain(self) -> Obtained:
        """Request a new token, and return it with its lifetime. Raises `ConfigError` if there is none."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [self._audience], "expirationSeconds": _TOKEN_SECONDS},
        }
        label = f"a token of the service account {self._account}"
        try:
            answer = await self._transport.request("POST", self._path, body=orjson.dumps(body))
            token = text(fields(json_object(answer, "a TokenRequest"), "status").get("token"))
            if not token:
                raise not_a("a TokenRequest", ValueError("it has no token"))
        except KubeError as error:
            raise ConfigError(f"{label} cannot be had: {error}") from error
        return Obtained(one_line(f"Bearer {token}", label), lifetime=_RENEWED_AFTER, validity=_TOKEN_SECONDS)
