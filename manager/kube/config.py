"""Configuration of the way to the API server, from a kubeconfig or the pod.

Kubeconfig files are merged as kubectl merges them. Credentials are for servers over TLS only: to any other
they would go in the clear.
"""

from __future__ import annotations

import asyncio
import base64
import math
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from yarl import URL

from manager.kube.credentials import (
    Credentials,
    ExecCredentials,
    ExecSpec,
    FixedCredentials,
    TokenFile,
    one_line,
)
from manager.kube.errors import ConfigError
from manager.kube.tls import Pem, Tls, TlsFiles
from manager.telemetry.logs import get_logger
from manager.util.address import in_pod
from manager.util.proxy_address import NotAProxy, proxy_for, proxy_url
from manager.util.small_file import read_small_file

T = TypeVar("T")

_log = get_logger("kube")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token, the cluster's CA certificate and its namespace."""

IN_CLUSTER = "in the cluster"
"""The `source` of a configuration that a pod has found there."""


@dataclass(kw_only=True, eq=False)
class ClusterConfig:
    """API server address and client identity.

    Attributes:
        server: the API server's URL; its path, if any, comes before every request's.
        source: the origin of the configuration, for messages and logs.
        credentials: the source of the Authorization header; it is not asked for plain HTTP.
        tls: the source of TLS contexts; None for plain HTTP.
        namespace: the namespace of the kubeconfig's context, or of the pod; None if unknown.
        proxy: the proxy to go through, or None.
        tls_server_name: the name that the server's certificate must have, None for its host's.
        headers: further headers for every request.
        at_hand: the last result of `identity`; it counts before the loop time `at_hand_until`.
    """

    server: URL
    source: str
    credentials: Credentials
    tls: Tls | None
    namespace: str | None = None
    proxy: URL | None = None
    tls_server_name: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    at_hand: tuple[str | None, ssl.SSLContext | None] = field(init=False, default=(None, None))
    at_hand_until: float = field(init=False, default=0.0)
    _certificate: tuple[Pem, Pem] | None = field(init=False, default=None)
    _obtaining: object | None = field(init=False, default=None)

    async def authorization(self, *, rejected: str | None = None) -> str | None:
        """Return the Authorization header to send now; None to send none, as always over plain HTTP.

        Args:
            rejected: the header that the server just answered with 401. The result is another header if other
                credentials can be obtained, else the same.

        Raises:
            ConfigError: credentials could never be obtained.
        """
        if self.server.scheme != "https":
            return None
        obtained = await self.credentials.current(rejected=rejected)
        self.at_hand_until, self._obtaining = 0.0, None
        if obtained.certificate is not self._certificate and self.tls is not None:
            self._certificate = obtained.certificate
            self.tls.present(obtained.certificate)
        return obtained.header

    async def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for new connections, None for plain HTTP; a new object after files change.

        Raises:
            ConfigError: the files do not make a valid context.
        """
        return None if self.tls is None else await self.tls.context()

    async def identity(self) -> tuple[str | None, ssl.SSLContext | None]:
        """Return what `authorization` and `ssl_context` do, and keep it `at_hand` until either may change."""
        header = await self.authorization()
        obtaining = self._obtaining = object()
        context = await self.ssl_context()
        if self._obtaining is obtaining:  # no other request needed new ones meanwhile
            until = self.credentials.renew_at if self.server.scheme == "https" else math.inf
            self.at_hand = header, context
            self.at_hand_until = until if self.tls is None else min(until, self.tls.check_at)
        return header, context

    def tls_failed(self) -> None:
        """Check the TLS files soon for replacements, after a connection failed because of certificates."""
        self.at_hand_until, self._obtaining = 0.0, None
        if self.tls is not None:
            self.tls.check_soon()


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
        path = _expand(kubeconfig, environ)
        return _from_kubeconfig([path], f"--kubeconfig {kubeconfig}", context, environ)
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
        headers=tuple(impersonation_of(choice.user)),
    )


def _in_cluster(environ: Mapping[str, str]) -> ClusterConfig:
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ["KUBERNETES_SERVICE_PORT"]
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        namespace = read_small_file(SERVICE_ACCOUNT / "namespace").decode("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        namespace = None
    server = _url(f"https://{authority}", "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT")
    return ClusterConfig(
        server=server,
        source=IN_CLUSTER,
        credentials=TokenFile(SERVICE_ACCOUNT / "token", label=IN_CLUSTER),
        tls=Tls(TlsFiles(authorities=Pem(IN_CLUSTER, path=SERVICE_ACCOUNT / "ca.crt"))),
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
    authorities = cluster.pem("certificate-authority")
    insecure = cluster.value_of("insecure-skip-tls-verify", bool, "neither true nor false")
    if insecure and authorities is not None:
        raise ConfigError(
            f"{cluster.path}: cluster {cluster.name!r} has both a certificate-authority "
            "and insecure-skip-tls-verify"
        )
    certificate = key = None
    if user is not None:
        certificate, key = user.pem("client-certificate"), user.pem("client-key")
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


# Kubeconfig files.

_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A named cluster, context or user; relative paths in its `value` start from the folder of `path`."""

    name: str
    value: dict[str, Any]
    path: Path

    def value_of(self, key: str, kind: type[T], otherwise: str) -> T | None:
        """Return the value at a key; None if it is absent or empty.

        Raises `ConfigError`, which says `otherwise` of the value, if it is of another kind.
        """
        value = self.value.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, kind):
            raise ConfigError(f"{self.path}: {key} of {self.name!r} is {otherwise}")
        return value

    def text(self, key: str) -> str | None:
        """Return the text at a key; None if it is absent or empty."""
        return self.value_of(key, str, "not text")

    def sequence(self, key: str) -> list[Any]:
        """Return the list at a key; empty if it is absent."""
        return self.value_of(key, list, "not a list") or []

    def file(self, key: str) -> Path | None:
        """Return the path at a key, which is relative to the folder of the kubeconfig."""
        if (name := self.text(key)) is None:
            return None
        if any(character in name for character in "\r\n\0") or not _is_encodable(name):
            # Not quoted: some put the key itself there.
            raise ConfigError(f"{self.path}: {key} of {self.name!r} cannot be the name of a file")
        return self.path.parent / name

    def pem(self, key: str) -> Pem | None:
        """Return the certificate or key that is there as `<key>-data`, or in the file at `<key>`.

        Raises `ConfigError` for data that are not base64.
        """
        if (data := self.text(f"{key}-data")) is None:
            path = self.file(key)
            return None if path is None else Pem(f"{self.path}: {key} of {self.name!r}", path=path)
        label = f"{self.path}: {key}-data of {self.name!r}"
        try:
            if data.endswith("=") and len(data.rstrip("=")) % 4 == 0:
                raise ValueError("Excess padding")  # noqa: TRY301 - which Python before 3.13 passes over
            return Pem(label, data=base64.b64decode(data, validate=True))
        except ValueError as error:  # text that is not ASCII raises no binascii.Error
            raise ConfigError(f"{label}: not base64: {error}") from error


@dataclass(frozen=True, slots=True)
class Choice:
    """Cluster, user and namespace that one context selects; `source` names their origin in messages."""

    cluster: Entry
    user: Entry | None
    namespace: str | None
    source: str


@dataclass(slots=True)
class Kubeconfig:
    """Files merged: of several entries of one name, and of several current contexts, the first counts."""

    source: str
    current_context: str | None = None
    sections: dict[str, dict[str, Entry]] = field(
        default_factory=lambda: {section: {} for section in _SECTIONS}
    )

    def choose(self, context: str | None) -> Choice:
        """Resolve `context`, or the current context if it is None; `ConfigError` if an entry is missing."""
        name = context or self.current_context
        if not name:
            raise ConfigError(f"{self.source}: no current-context; name one with --context")
        found = self.sections["contexts"].get(name)
        if found is None:
            known = ", ".join(sorted(map(repr, self.sections["contexts"]))) or "none"
            raise ConfigError(f"{self.source}: no context {name!r} (there are: {known})")
        cluster = found.text("cluster")
        user = found.text("user")
        if cluster is None:
            raise ConfigError(f"{found.path}: context {name!r} names no cluster")
        return Choice(
            cluster=self._referred("clusters", cluster, found),
            user=None if user is None else self._referred("users", user, found),
            namespace=found.text("namespace"),
            source=f"{found.path}, context {name!r}",
        )

    def _referred(self, section: str, name: str, context: Entry) -> Entry:
        entry = self.sections[section].get(name)
        if entry is None:
            kind = _SECTIONS[section]
            raise ConfigError(f"{self.source}: no {kind} {name!r}, which context {context.name!r} refers to")
        return entry


def read_kubeconfig(paths: Sequence[Path], *, source: str) -> Kubeconfig:
    """Read and merge files; those that do not exist are left out, as kubectl does.

    Messages call them `source`. Raises `ConfigError` if none of them exists, or one cannot be read or is not
    a kubeconfig.
    """
    merged = Kubeconfig(source)
    existing = [path for path in paths if path.exists()]
    if not existing:
        raise ConfigError(f"{source}: no such file")
    for path in existing:
        document = _load(path)
        current = document.get("current-context")
        if isinstance(current, str) and merged.current_context is None:
            merged.current_context = current or None
        for section, kind in _SECTIONS.items():
            for entry in _entries(document, section, kind, path):
                merged.sections[section].setdefault(entry.name, entry)
    return merged


def _load(path: Path) -> Mapping[str, Any]:
    try:
        text = read_small_file(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    from manager.util import yaml_text  # noqa: PLC0415 - 15 ms and 0.9 MB, and a pod has no kubeconfig

    try:
        document = yaml_text.load(text)
    except yaml_text.NotYaml as error:
        raise ConfigError(f"{path}: {error}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: not a kubeconfig")
    for key, expected in (("apiVersion", "v1"), ("kind", "Config")):
        if document.get(key) not in (None, "", expected):
            raise ConfigError(f"{path}: {key} is {document[key]!r}, and of a kubeconfig it is {expected}")
    return document


def _entries(document: Mapping[str, Any], section: str, kind: str, path: Path) -> list[Entry]:
    entries: list[Entry] = []
    listed = document.get(section) or []
    if not isinstance(listed, list):
        raise ConfigError(f"{path}: {section} is not a list")
    for each in listed:
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str):
            raise ConfigError(f"{path}: an entry of {section} has no name")
        value = each.get(kind) or {}
        if not isinstance(value, dict):
            raise ConfigError(f"{path}: {kind} {name!r} is not a mapping")
        if any(other.name == name for other in entries):
            raise ConfigError(f"{path}: there are two entries {name!r} in {section}")
        entries.append(Entry(name, value, path))
    return entries


# The user of the chosen context.

_EXEC_CLUSTER_KEYS = {
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
}

_NAME_OF_HEADER = "!#$&'*+^`|"
"""What else than letters, digits and "-._~" the name of a header may hold; the server decodes the rest."""

_CREDENTIALS = {
    "token",
    "tokenFile",
    "username",
    "password",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "exec",
}


def names_credentials(user: Entry) -> bool:
    """Return whether the user has credentials, and does not only act as another one."""
    return any(user.value.get(key) for key in _CREDENTIALS)


def credentials_of(choice: Choice, environ: Mapping[str, str]) -> Credentials:
    """How the chosen user authenticates, client certificates aside.

    Raises:
        ConfigError: the user says so in a way that cannot be followed.
    """
    user = choice.user
    if user is None:
        return FixedCredentials(None)
    label = f"{user.path}: user {user.name!r}"
    if user.value.get("auth-provider") is not None:
        raise ConfigError(
            f"{label}: auth-provider is not supported: use exec, for OpenID Connect with kubelogin"
        )
    if (token_file := user.file("tokenFile")) is not None:
        return TokenFile(token_file, label=f"{label}: tokenFile")
    header = _header_of(user, label)
    if header is None and user.value.get("exec") is not None:
        return _exec_credentials(choice, user, label, environ)
    return FixedCredentials(header)


def _header_of(user: Entry, label: str) -> str | None:
    if (token := user.text("token")) is not None:
        return one_line(f"Bearer {token}", label)
    if not {"username", "password"} <= user.value.keys():
        return None
    password = f"{user.text('username') or ''}:{user.text('password') or ''}"
    if not _is_encodable(password):
        raise ConfigError(f"{label}: username and password are not text")
    return f"Basic {base64.b64encode(password.encode()).decode()}"


def impersonation_of(user: Entry | None) -> list[tuple[str, str]]:
    """Return the impersonation headers of a user (`as`, `as-groups`, `as-uid`, `as-user-extra`)."""
    if user is None:
        return []
    headers = []
    for key, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
        if (value := user.text(key)) is not None:
            headers.append((header, _line(user, key, value)))
    headers += [
        ("Impersonate-Group", _line(user, "as-groups", group)) for group in user.sequence("as-groups")
    ]
    extra = user.value.get("as-user-extra") or {}
    if not isinstance(extra, dict) or not all(isinstance(values, list) for values in extra.values()):
        raise ConfigError(f"{user.path}: as-user-extra of {user.name!r} is not a mapping to lists")
    for key, values in extra.items():
        name = quote(_line(user, "as-user-extra", key), safe=_NAME_OF_HEADER)
        headers += [(f"Impersonate-Extra-{name}", _line(user, "as-user-extra", value)) for value in values]
    if headers and headers[0][0] != "Impersonate-User":
        raise ConfigError(f"{user.path}: user {user.name!r} impersonates nobody: 'as' is missing")
    return headers


def _exec_credentials(choice: Choice, user: Entry, label: str, environ: Mapping[str, str]) -> ExecCredentials:
    try:
        spec = msgspec.convert(user.value["exec"], ExecSpec)
        spec.check()
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{label}: exec: {error}") from error
    cluster = {key: value for key, value in choice.cluster.value.items() if key in _EXEC_CLUSTER_KEYS}
    ca = choice.cluster.pem("certificate-authority")
    if ca is not None and "certificate-authority-data" not in cluster:
        cluster["certificate-authority-data"] = base64.b64encode(ca.read()).decode()
    for extension in choice.cluster.sequence("extensions"):
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            cluster["config"] = extension.get("extension")
    return ExecCredentials(spec, f"{label}: exec {spec.command!r}", user.path.parent, cluster, environ)


def _line(user: Entry, key: str, value: object) -> str:
    """Return `value` if it can be a header's value, otherwise raise `ConfigError`."""
    if not isinstance(value, str):
        raise ConfigError(f"{user.path}: user {user.name!r}: {key}: a value is not text")
    if any(character in value for character in "\r\n\0") or not _is_encodable(value):
        raise ConfigError(f"{user.path}: user {user.name!r}: {key}: {value!r} is not one line of text")
    return value


def _is_encodable(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
