"""Configuration of the connection to the API server, from a kubeconfig or from the pod.

Kubeconfig files are merged as in kubectl. Credentials are sent only over TLS: over plain HTTP anyone could
read them.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec
import orjson
from yarl import URL

from manager.kube.credentials import (
    NO_CREDENTIALS,
    Credentials,
    ExecCredentials,
    ExecSpec,
    FixedCredentials,
    Obtained,
    TokenFile,
    one_line,
)
from manager.kube.errors import ConfigError
from manager.kube.tls import Pem, Tls, TlsFiles
from manager.telemetry.logs import get_logger
from manager.util.address import NotAProxy, http_url, in_pod, proxy_for, proxy_url
from manager.util.small_file import read_small_file

T = TypeVar("T")

_log = get_logger("kube")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod with its token, the cluster's CA certificate and its namespace."""

IN_CLUSTER = "in the cluster"
"""The `source` of a configuration from the pod's own files."""


@dataclass(kw_only=True, eq=False)
class ClusterConfig:
    """Address of the API server and identity of the client.

    Attributes:
        server: the API server's URL; its path, if any, precedes the path of every request.
        source: the origin of the configuration, for messages and logs.
        credentials: the source of the Authorization header; unused for plain HTTP.
        tls: the source of TLS contexts; None for plain HTTP.
        namespace: the namespace of the kubeconfig's context, or of the pod; None if unknown.
        proxy: the proxy to use, or None.
        tls_server_name: the name that the server's certificate must have; None for the URL's host.
        headers: further headers for every request.
    """

    server: URL
    source: str
    credentials: Credentials
    tls: Tls | None
    namespace: str | None = None
    proxy: URL | None = None
    tls_server_name: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    _certificate: tuple[Pem, Pem] | None = field(init=False, default=None)

    async def current_credentials(self, *, rejected: Obtained | str | None = None) -> Obtained:
        """Return credentials as `Credentials.current` does, or `NO_CREDENTIALS` over plain HTTP.

        New connections use their certificate.
        """
        if self.server.scheme != "https":
            return NO_CREDENTIALS
        obtained = await self.credentials.current(rejected=rejected)
        if obtained.certificate is not self._certificate and self.tls is not None:
            self._certificate = obtained.certificate
            self.tls.present(obtained.certificate)
        return obtained

    async def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for new connections, a new one after the files change; None for plain HTTP.

        Raises:
            ConfigError: the files are invalid, and there is no earlier context.
        """
        return None if self.tls is None else await self.tls.context()

    def tls_failed(self) -> None:
        """Schedule a check for changed TLS files, after a failure of TLS or an answer 401."""
        if self.tls is not None:
            self.tls.check_at = 0.0


async def load_config(
    *, kubeconfig: str | None, context: str | None, environ: Mapping[str, str]
) -> ClusterConfig:
    """Find the configuration of the API server, and make sure that credentials can be obtained.

    The first one found is used: the `kubeconfig` flag, the files in KUBECONFIG, the pod in which the process
    runs, `~/.kube/config`. With a `context`, the pod's own configuration is skipped.

    Args:
        kubeconfig: path of a kubeconfig file, from the flag.
        context: the context of the kubeconfig to use instead of its current one.
        environ: the process's environment.

    Raises:
        ConfigError: no configuration, or an invalid one; the message is one line.
    """
    config = await asyncio.to_thread(_find, kubeconfig, context, environ)
    await config.current_credentials()
    await config.ssl_context()
    return config


def _find(kubeconfig: str | None, context: str | None, environ: Mapping[str, str]) -> ClusterConfig:
    no_file = ""
    if kubeconfig:
        paths, source = [_expand(kubeconfig, environ)], f"--kubeconfig {kubeconfig}"
    elif listed := [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]:
        paths = [_expand(part, environ) for part in listed]
        source = f"KUBECONFIG={os.pathsep.join(listed)}"
    elif context is None and in_pod(environ):
        return _in_cluster(environ)
    else:
        default = _expand("~/.kube/config", environ)
        paths, source = [default], str(default)
        no_file = f"no cluster: give --kubeconfig, set KUBECONFIG, run in a pod, or have {default}"
    chosen, cluster, user = _choose(paths, source, context, no_file)
    server = _server(cluster, user)
    return ClusterConfig(
        server=server,
        source=f"kubeconfig {chosen}",
        credentials=_credentials(cluster, user, environ),
        tls=Tls(_tls_files(cluster, user)) if server.scheme == "https" else None,
        namespace=chosen.value.namespace or None,
        proxy=_proxy(server, environ, cluster),
        tls_server_name=_tls_server_name(cluster),
        headers=_impersonation(user),
    )


def _in_cluster(environ: Mapping[str, str]) -> ClusterConfig:
    host = environ["KUBERNETES_SERVICE_HOST"]
    address = f"https://{f'[{host}]' if ':' in host else host}:{environ['KUBERNETES_SERVICE_PORT']}"
    try:
        namespace = read_small_file(SERVICE_ACCOUNT / "namespace").decode("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        namespace = None
    server = _url(address, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT")
    return ClusterConfig(
        server=server,
        source=IN_CLUSTER,
        credentials=TokenFile(SERVICE_ACCOUNT / "token", label=IN_CLUSTER),
        tls=Tls(TlsFiles(authorities=Pem(IN_CLUSTER, path=SERVICE_ACCOUNT / "ca.crt"))),
        namespace=namespace,
        proxy=_proxy(server, environ),
    )


def _expand(name: str, environ: Mapping[str, str]) -> Path:
    if name == "~" or name.startswith("~/"):
        return Path(environ.get("HOME") or Path.home()) / name[2:]
    return Path(name)


# Kubeconfig files. As in kubectl, an empty string or null has the same meaning as a missing field.


class _Extension(msgspec.Struct):
    name: str | None = None
    extension: Any = None


class _Cluster(msgspec.Struct, rename="kebab", omit_defaults=True):
    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    disable_compression: bool | None = None
    extensions: list[_Extension] | None = None


class _UserCredentials(msgspec.Struct, rename="kebab"):
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: Any = None


class _User(_UserCredentials, rename="kebab"):
    auth_provider: Any = None
    as_user: str | None = msgspec.field(default=None, name="as")
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


class _Context(msgspec.Struct):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _Named(msgspec.Struct):
    name: str
    cluster: _Cluster | None = None
    user: _User | None = None
    context: _Context | None = None


class _Kubeconfig(msgspec.Struct, rename="kebab"):
    api_version: Literal["v1", ""] | None = msgspec.field(default=None, name="apiVersion")
    kind: Literal["Config", ""] | None = None
    current_context: str | None = None
    clusters: list[_Named] | None = None
    users: list[_Named] | None = None
    contexts: list[_Named] | None = None


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    """A cluster, user or context; relative paths in its `value` start at the folder of `path`."""

    kind: str
    name: str
    value: T
    path: Path

    def __str__(self) -> str:
        return f"{self.path}: {self.kind} {self.name!r}"

    def pem(self, key: str) -> Pem | None:
        """Return the certificate or key at `<key>-data`, or in the file at `<key>`; None without both."""
        attribute = key.replace("-", "_")
        if not (data := getattr(self.value, f"{attribute}_data")):
            path = self.file(key, getattr(self.value, attribute))
            return None if path is None else Pem(f"{self}: {key}", path=path)
        label = f"{self}: {key}-data"
        try:
            if data.endswith("=") and len(data.rstrip("=")) % 4 == 0:
                raise ValueError("Excess padding")  # noqa: TRY301 - Python before 3.13 does not report it
            return Pem(label, data=base64.b64decode(data, validate=True))
        except ValueError as error:  # text that is not ASCII raises no binascii.Error
            raise ConfigError(f"{label}: not base64: {error}") from error

    def file(self, key: str, name: str | None) -> Path | None:
        """Return the path `name`, joined to the kubeconfig's folder; None if empty. `key` is for errors."""
        if not name:
            return None
        if not _is_line(name):
            # The value is not quoted: some users put the key itself there.
            raise ConfigError(f"{self}: {key} cannot be the name of a file")
        return self.path.parent / name


def _choose(
    paths: Sequence[Path], source: str, context: str | None, no_file: str = ""
) -> tuple[_Entry[_Context], _Entry[_Cluster], _Entry[_User]]:
    """Merge the existing files, and return a context (by default the current one) with its entries.

    Of entries with the same name in several files, and of several current contexts, the first one counts.
    `no_file` is the error for no existing file; "" names the `source`.
    """
    kinds = {"cluster": _Cluster, "user": _User, "context": _Context}
    known: dict[str, dict[str, _Entry[Any]]] = {kind: {} for kind in kinds}
    documents = {path: document for path in paths if (document := _load(path)) is not None}
    if not documents:
        raise ConfigError(no_file or f"{source}: no such file")
    for path, document in documents.items():
        context = context or document.current_context
        for kind, empty in kinds.items():
            names = set[str]()
            for each in getattr(document, f"{kind}s") or ():
                if each.name in names:
                    raise ConfigError(f"{path}: there are two entries {each.name!r} in {kind}s")
                names.add(each.name)
                entry = _Entry(kind, each.name, getattr(each, kind) or empty(), path)
                known[kind].setdefault(each.name, entry)
    if not context:
        raise ConfigError(f"{source}: no current-context; name one with --context")
    if (chosen := known["context"].get(context)) is None:
        there = ", ".join(sorted(map(repr, known["context"]))) or "none"
        raise ConfigError(f"{source}: no context {context!r} (there are: {there})")
    if not chosen.value.cluster:
        raise ConfigError(f"{chosen} names no cluster")
    for kind in ("cluster", "user"):
        if (name := getattr(chosen.value, kind)) and name not in known[kind]:
            raise ConfigError(f"{source}: no {kind} {name!r}, which context {context!r} refers to")
    user = known["user"].get(chosen.value.user or "") or _Entry("user", "", _User(), chosen.path)
    return chosen, known["cluster"][chosen.value.cluster], user


def _load(path: Path) -> _Kubeconfig | None:
    """Return the content of a file; None if there is no such file."""
    try:
        text = read_small_file(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a ValueError means an impossible name
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    from manager.util import yaml_text  # noqa: PLC0415 - 10 ms, 0.6 MB, and a pod has no kubeconfig

    try:
        # Convert to JSON first: orjson refuses lone surrogates and integers of more than 64 bits.
        raw = orjson.dumps(yaml_text.load(text) or {}, option=orjson.OPT_NON_STR_KEYS)
        return msgspec.json.decode(raw, type=_Kubeconfig)
    except yaml_text.NotYaml as error:
        raise ConfigError(f"{path}: {error}") from None
    except (msgspec.ValidationError, orjson.JSONEncodeError) as error:
        raise ConfigError(f"{path}: not a kubeconfig: {error}") from None


_OF_TLS = ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify")
"""Keys of a cluster that have no meaning for plain HTTP."""


def _server(cluster: _Entry[_Cluster], user: _Entry[_User]) -> URL:
    address, label = cluster.value.server, f"{cluster}: server"
    if not address:
        raise ConfigError(f"{cluster} names no server")
    implied = "" if "://" in address else "http://"  # as in kubectl, whatever else the entry contains
    server = _url(f"{implied}{address}", label)
    if server.scheme == "https":
        return server
    lost = [f"{key} has no meaning" for key in _OF_TLS if getattr(cluster.value, key.replace("-", "_"))]
    if any(getattr(user.value, each) for each in _UserCredentials.__struct_fields__):
        lost.insert(0, f"the credentials of user {user.name!r} are not sent")
        if not implied:
            # As in kubectl: a server with plain HTTP (such as kubectl proxy) has its own credentials or needs
            # none.
            _log.warning("credentials are not sent over plain HTTP", server=str(server), user=user.name)
    if implied and lost:
        raise ConfigError(
            f"{label}: {address!r} does not say https://, so it means plain HTTP, and there {lost[0]}"
        )
    return server


def _url(address: str, label: str) -> URL:
    if "@" in address:  # a password may precede the "@", and a part of it may look like a host or a path
        raise ConfigError(f"{label}: must not contain a user or password: put them into the user's entry")
    if (url := http_url(address)) is None:
        raise ConfigError(f"{label}: {address!r} is not an http:// or https:// URL")
    return url


def _tls_files(cluster: _Entry[_Cluster], user: _Entry[_User]) -> TlsFiles:
    authorities, insecure = cluster.pem("certificate-authority"), cluster.value.insecure_skip_tls_verify
    if insecure and authorities is not None:
        raise ConfigError(f"{cluster} has both a certificate-authority and insecure-skip-tls-verify")
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if (certificate is None) != (key is None):
        raise ConfigError(f"{user} has no {'client-key' if key is None else 'client-certificate'}")
    return TlsFiles(authorities, certificate, key, verify=not insecure)


def _tls_server_name(cluster: _Entry[_Cluster]) -> str | None:
    if not (name := cluster.value.tls_server_name):
        return None
    with suppress(UnicodeError):
        if name.encode("idna") and name.isprintable() and not name.startswith("."):
            return name
    raise ConfigError(f"{cluster}: tls-server-name: {name!r} is not a host's name")


def _proxy(server: URL, environ: Mapping[str, str], cluster: _Entry[_Cluster] | None = None) -> URL | None:
    try:
        if cluster is None or not (address := cluster.value.proxy_url):
            return proxy_for(server, environ)
        if "://" not in address:
            raise ConfigError(f"{cluster}: proxy-url has to begin with http://, https:// or socks5://")
        return proxy_url(address, source=f"{cluster}: proxy-url")
    except NotAProxy as error:
        raise ConfigError(str(error)) from None


_NAME_OF_HEADER = "!#$&'*+^`|"
"""Special characters that a header's name may contain unescaped; the server decodes all others."""


def _credentials(cluster: _Entry[_Cluster], user: _Entry[_User], environ: Mapping[str, str]) -> Credentials:
    """Return the source of the chosen user's credentials, without the entry's client-certificate."""
    value = user.value
    if value.auth_provider is not None:
        raise ConfigError(
            f"{user}: auth-provider is not supported: use exec, for OpenID Connect with kubelogin"
        )
    if (token_file := user.file("tokenFile", value.token_file)) is not None:
        return TokenFile(token_file, label=f"{user}: tokenFile")
    if value.token:
        return FixedCredentials(one_line(f"Bearer {value.token}", str(user)))
    if value.username:
        pair = f"{value.username}:{value.password or ''}".encode()
        return FixedCredentials(f"Basic {base64.b64encode(pair).decode()}")
    return FixedCredentials(None) if value.exec is None else _exec_credentials(cluster, user, environ)


def _exec_credentials(
    cluster: _Entry[_Cluster], user: _Entry[_User], environ: Mapping[str, str]
) -> ExecCredentials:
    try:
        spec = msgspec.convert(user.value.exec, ExecSpec)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{user}: exec: {error}") from None
    told = msgspec.to_builtins(cluster.value)
    authorities = cluster.pem("certificate-authority")
    if authorities is not None:
        told["certificate-authority-data"] = base64.b64encode(authorities.read()).decode()
    for extension in cluster.value.extensions or ():
        if extension.name == "client.authentication.k8s.io/exec":
            told["config"] = extension.extension
    for key in ("certificate-authority", "extensions"):
        told.pop(key, None)
    return ExecCredentials(spec, f"{user}: exec {spec.command!r}", user.path.parent, told, environ)


def _impersonation(user: _Entry[_User]) -> list[tuple[str, str]]:
    """Return the impersonation headers of a user (`as`, `as-groups`, `as-uid`, `as-user-extra`)."""
    value = user.value
    found = [("as", "User", value.as_user)] if value.as_user else []
    found += [("as-uid", "Uid", value.as_uid)] if value.as_uid else []
    found += [("as-groups", "Group", each) for each in value.as_groups or ()]
    for name, values in (value.as_user_extra or {}).items():
        header = f"Extra-{quote(_line(user, 'as-user-extra', name), safe=_NAME_OF_HEADER)}"
        found += [("as-user-extra", header, each) for each in values]
    if found and not value.as_user:
        raise ConfigError(f"{user} impersonates nobody: 'as' is missing")
    return [(f"Impersonate-{header}", _line(user, key, text)) for key, header, text in found]


def _line(user: _Entry[_User], key: str, value: str) -> str:
    """Return `value` if it is valid for a header, otherwise raise `ConfigError`."""
    if not _is_line(value):
        raise ConfigError(f"{user}: {key}: {value!r} is not one line of text")
    return value


def _is_line(text: str) -> bool:
    return not any(character in text for character in "\r\n\0")
