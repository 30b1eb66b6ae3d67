"""How to reach the API server and who to be there: found once, kept fresh.

Credentials are for servers over TLS only: to any other they would go in the clear.
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

from yarl import URL

from manager.kube.credentials import Credentials, TokenFile
from manager.kube.errors import ConfigError
from manager.kube.kubeconfig import (
    Choice,
    Entry,
    credentials_of,
    impersonation_of,
    names_credentials,
    pem_of,
    read_kubeconfig,
)
from manager.kube.tls import Pem, Tls, TlsFiles
from manager.telemetry.logs import get_logger
from manager.util.address import in_pod
from manager.util.proxy_address import NotAProxy, proxy_for, proxy_url
from manager.util.small_file import read_small_file

_log = get_logger("kube")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token, the cluster's CA certificate and its namespace."""

IN_CLUSTER = "in the cluster"
"""The `source` of a configuration that a pod has found there."""


class ClusterConfig:
    """API server address and client identity.

    Attributes:
        server: the API server's URL; its path, if any, comes before every request's.
        source: where all this was found, for messages and logs.
        namespace: the namespace that the kubeconfig's context, or the pod, is in; None if unknown.
        proxy: the proxy to go through, or None.
        tls_server_name: the name that the server's certificate has to have, None for its host's.
        headers: further headers for every request.
        at_hand: what `identity` returned last; it counts before the loop time `at_hand_until`.
    """

    def __init__(
        self,
        *,
        server: URL,
        source: str,
        credentials: Credentials,
        tls: Tls | None,
        namespace: str | None = None,
        proxy: URL | None = None,
        tls_server_name: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.server = server
        self.source = source
        self.namespace = namespace
        self.proxy = proxy
        self.tls_server_name = tls_server_name
        self.headers = tuple(headers)
        self._credentials = credentials
        self._tls = tls
        self._presented: tuple[Pem, Pem] | None = None
        self._is_secure = server.scheme == "https"
        self.at_hand: tuple[str | None, ssl.SSLContext | None] = (None, None)
        self.at_hand_until = 0.0
        self._obtaining: object | None = None

    async def authorization(self, *, rejected: str | None = None) -> str | None:
        """Return the Authorization header to send now; None to send none, as always over plain HTTP.

        Args:
            rejected: the header that the server just answered with 401. The result is another header if other
                credentials can be obtained, else the same.

        Raises:
            ConfigError: credentials could never be obtained.
        """
        if not self._is_secure:
            return None
        obtained = await self._credentials.current(rejected=rejected)
        self.at_hand_until, self._obtaining = 0.0, None
        if obtained.certificate is not self._presented and self._tls is not None:
            self._presented = obtained.certificate
            self._tls.present(obtained.certificate)
        return obtained.header

    async def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for new connections, None for plain HTTP; a new object after files change.

        Raises:
            ConfigError: the files do not make a valid context.
        """
        return None if self._tls is None else await self._tls.context()

    async def identity(self) -> tuple[str | None, ssl.SSLContext | None]:
        """Return what `authorization` and `ssl_context` do, and keep it `at_hand` until either may change."""
        header = await self.authorization()
        obtaining = self._obtaining = object()
        context = await self.ssl_context()
        if self._obtaining is obtaining:  # no other request needed new ones meanwhile
            until = self._credentials.renew_at if self._is_secure else math.inf
            self.at_hand = header, context
            self.at_hand_until = until if self._tls is None else min(until, self._tls.check_at)
        return header, context

    def tls_failed(self) -> None:
        """Check the TLS files soon for replacements, after a connection failed because of certificates."""
        self.at_hand_until, self._obtaining = 0.0, None
        if self._tls is not None:
            self._tls.check_soon()


async def load_config(
    *, kubeconfig: str | None, context: str | None, environ: Mapping[str, str]
) -> ClusterConfig:
    """Find out how to reach the API server, and make sure that credentials can be obtained.

    The first that applies: the `kubeconfig` flag, the files in KUBECONFIG, the pod this runs in,
    `~/.kube/config`. Naming a context leaves out the pod.

    Args:
        kubeconfig: path of a kubeconfig file, from the flag.
        context: which context of the kubeconfig to use, instead of its current one.
        environ: the process's environment.

    Raises:
        ConfigError: nothing was found, or what was found cannot be used; one line that says which.
    """
    config = await asyncio.to_thread(_find, kubeconfig, context, environ)
    await config.authorization()
    await config.ssl_context()
    return config


def _find(kubeconfig: str | None, context: str | None, environ: Mapping[str, str]) -> ClusterConfig:
    if kubeconfig:
        return _from_kubeconfig(
            [_expand(kubeconfig, environ)], f"--kubeconfig {kubeconfig}", context, environ
        )
    if listed := [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]:
        paths = [_expand(part, environ) for part in listed]
        return _from_kubeconfig(paths, f"KUBECONFIG={os.pathsep.join(listed)}", context, environ)
    if context is None and in_pod(environ):
        return _in_cluster(environ)
    default = _expand("~/.kube/config", environ)
    if not default.exists():
        raise ConfigError(
            f"no cluster to talk to: give --kubeconfig, set KUBECONFIG, run in a pod, or have {default}"
        )
    return _from_kubeconfig([default], str(default), context, environ)


def _from_kubeconfig(
    paths: Sequence[Path], source: str, context: str | None, environ: Mapping[str, str]
) -> ClusterConfig:
    choice = read_kubeconfig(paths, source=source).choose(context)
    server = _server(choice)
    return ClusterConfig(
        server=server,
        source=f"kubeconfig {choice.source}",
        credentials=credentials_of(choice, environ),
        tls=Tls(_tls_files(choice)) if server.scheme == "https" else None,
        namespace=choice.namespace,
        proxy=_proxy(server, environ, choice.cluster),
        tls_server_name=_tls_server_name(choice.cluster),
        headers=impersonation_of(choice.user),
    )


def _in_cluster(environ: Mapping[str, str]) -> ClusterConfig:
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ["KUBERNETES_SERVICE_PORT"]
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        namespace = read_small_file(SERVICE_ACCOUNT / "namespace").decode("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        namespace = None
    label = IN_CLUSTER
    server = _url(f"https://{authority}", "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT")
    return ClusterConfig(
        server=server,
        source=label,
        credentials=TokenFile(SERVICE_ACCOUNT / "token", label=label),
        tls=Tls(TlsFiles(authorities=Pem(label, path=SERVICE_ACCOUNT / "ca.crt"))),
        namespace=namespace,
        proxy=_proxy(server, environ),
    )


def _server(choice: Choice) -> URL:
    cluster, user = choice.cluster, choice.user
    address = cluster.text("server")
    if address is None:
        raise ConfigError(f"{cluster.path}: cluster {cluster.name!r} names no server")
    label = f"{cluster.path}: server of cluster {cluster.name!r}"
    implied = "" if "://" in address else "http://"  # as kubectl takes it, whatever else the cluster says
    server = _url(f"{implied}{address}", label)
    if implied and (secured := _secured_by(choice)):
        raise ConfigError(
            f"{label}: {address!r} does not say https://, so it means plain HTTP, and there {secured}"
        )
    if server.scheme == "http" and user is not None and names_credentials(user):
        # As kubectl does: what serves plain HTTP (kubectl proxy, say) has its own credentials, or wants none.
        _log.warning("credentials are not sent over plain HTTP", server=str(server), user=user.name)
    return server


def _secured_by(choice: Choice) -> str:
    """Name a key of the cluster or user without a meaning in plain HTTP; empty if there is none."""
    if choice.user is not None and names_credentials(choice.user):
        return f"the credentials of user {choice.user.name!r} are not sent"
    for key in ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"):
        if choice.cluster.value.get(key):
            return f"{key} has no meaning"
    return ""


def _url(address: str, label: str) -> URL:
    if "@" in address:  # a password may precede the "@", and part of it may look like a host or a path
        raise ConfigError(
            f"{label}: a user or a password is no part of it: they belong into the user's entry"
        )
    try:
        url = URL(address)
        # A host that cannot be one is found out only when it is asked for.
        known = url.scheme in {"http", "https"} and url.host and url.port
    except ValueError:
        url, known = URL(), None
    if not known:
        raise ConfigError(f"{label}: {address!r} is not an http:// or https:// URL")
    return url


def _tls_files(choice: Choice) -> TlsFiles:
    cluster, user = choice.cluster, choice.user
    authorities = pem_of(cluster, "certificate-authority")
    insecure = cluster.flag("insecure-skip-tls-verify")
    if insecure and authorities is not None:
        raise ConfigError(
            f"{cluster.path}: cluster {cluster.name!r} has both a certificate-authority "
            "and insecure-skip-tls-verify"
        )
    certificate = key = None
    if user is not None:
        certificate, key = pem_of(user, "client-certificate"), pem_of(user, "client-key")
        if (certificate is None) != (key is None):
            missing = "client-key" if key is None else "client-certificate"
            raise ConfigError(f"{user.path}: user {user.name!r} has no {missing}")
    return TlsFiles(authorities, certificate, key, verify=not insecure)


def _tls_server_name(cluster: Entry) -> str | None:
    name = cluster.text("tls-server-name")
    if name is None:
        return None
    try:
        name.encode("idna")
        known = name.isprintable() and not name.startswith(".")
    except UnicodeError:
        known = False
    if not known:
        raise ConfigError(
            f"{cluster.path}: tls-server-name of cluster {cluster.name!r}: {name!r} is not a host's name"
        )
    return name


def _proxy(server: URL, environ: Mapping[str, str], cluster: Entry | None = None) -> URL | None:
    try:
        if cluster is not None and (address := cluster.text("proxy-url")) is not None:
            source = f"{cluster.path}: proxy-url of cluster {cluster.name!r}"
            if "://" not in address:
                raise ConfigError(f"{source}: it has to begin with http://, https:// or socks5://")
            return proxy_url(address, source=source)
        return proxy_for(server, environ)
    except NotAProxy as error:
        raise ConfigError(str(error)) from None


def _expand(name: str, environ: Mapping[str, str]) -> Path:
    if name == "~" or name.startswith("~/"):
        return Path(environ.get("HOME") or Path.home()) / name[2:]
    return Path(name)
