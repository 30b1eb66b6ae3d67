"""The user of a kubeconfig, turned into credentials and a client certificate."""

from __future__ import annotations

import asyncio
import base64
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import yaml

from manager import yaml_text
from manager.kube._slim import loaders
from manager.kube.credentials import FOREVER, Credentials, FixedCredentials, Obtained, TokenFile, one_line
from manager.kube.errors import ConfigError
from manager.kube.exec_plugin import ExecCredentials, ExecPlugin, ExecSpec
from manager.kube.pem import Pem, in_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from manager.kube.kubeconfig import Choice, Entry

_CHECK_INTERVAL = 30.0
"""Seconds between two questions whether a provider's token is still good; it answers from memory."""

_PROVIDER_TIMEOUT = 30.0
"""Seconds for a provider to answer."""

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
    "auth-provider",
    "exec",
}


def names_credentials(user: Entry) -> bool:
    """Whether the user is somebody, and not only said to act as somebody."""
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
    for key in ("token", "username", "password"):
        user.text(key)  # the loader would take a list for the text of it
    if (token_file := user.text("tokenFile")) is not None:
        return TokenFile(_resolve(token_file, user), label=f"{label}: tokenFile")
    if "exec" in user.value:
        return ExecCredentials(_exec_plugin(choice, user, label, environ))
    return LoadedCredentials(user, label)


def pem_of(entry: Entry, key: str) -> Pem | None:
    """The certificate or key that an entry holds as `<key>-data`, or names the file of as `<key>`.

    Raises:
        ConfigError: what it holds is not base64.
    """
    if (data := entry.text(f"{key}-data")) is not None:
        label = f"{entry.path}: {key}-data of {entry.name!r}"
        try:
            return Pem(label, data=base64.b64decode(data, validate=True))
        except ValueError as error:  # what is not ASCII is not called a binascii.Error
            raise ConfigError(f"{label}: not base64: {error}") from error
    if (name := entry.text(key)) is not None:
        return Pem(f"{entry.path}: {key} of {entry.name!r}", path=_resolve(name, entry))
    return None


def impersonation_of(user: Entry | None) -> list[tuple[str, str]]:
    """The headers by which the user acts as another one (`as`, `as-groups`, `as-uid`, `as-user-extra`)."""
    if user is None:
        return []
    headers = []
    for key, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
        if (value := user.text(key)) is not None:
            headers.append((header, _line(user, key, value)))
    groups = user.several("as-groups")
    headers += [("Impersonate-Group", _line(user, "as-groups", group)) for group in groups]
    extra = user.value.get("as-user-extra") or {}
    if not isinstance(extra, dict) or not all(isinstance(values, list) for values in extra.values()):
        raise ConfigError(f"{user.path}: as-user-extra of {user.name!r} is not a mapping to lists")
    for key, values in extra.items():
        name = quote(_line(user, "as-user-extra", key), safe=_NAME_OF_HEADER)
        headers += [(f"Impersonate-Extra-{name}", _line(user, "as-user-extra", value)) for value in values]
    if headers and headers[0][0] != "Impersonate-User":
        raise ConfigError(f"{user.path}: user {user.name!r} acts as somebody without saying whom ('as')")
    return headers


class LoadedCredentials(Credentials):
    """Whatever kubernetes-asyncio knows to authenticate with: tokens, passwords, auth-providers."""

    def __init__(self, user: Entry, label: str) -> None:
        super().__init__()
        self._label = label
        self._user = user
        self._renewable = "auth-provider" in user.value
        self._changed = False

    async def obtain(self, *, rejected: bool) -> Obtained:
        """What the loader says; it asks an auth-provider again once its token has expired."""
        if rejected:
            self._drop_rejected_token()
        # In a thread, with an event loop of its own: the loader reads files and imports as it goes.
        header = await in_thread(lambda: asyncio.run(self._load()))
        if header is None and self._renewable:
            raise ConfigError(f"{self._label}: cannot authenticate: its auth-provider is none that is known")
        return Obtained(header, _CHECK_INTERVAL if self._renewable else FOREVER)

    async def _load(self) -> str | None:
        receiver = SimpleNamespace(api_key={})
        try:
            async with asyncio.timeout(_PROVIDER_TIMEOUT):
                await self._loader().load_and_set(receiver)
        except Exception as error:
            # It reports what it meets in many ways: its own error, KeyError, ValueError, aiohttp's…
            said = " ".join(str(error).split()) or type(error).__name__
            raise ConfigError(f"{self._label}: cannot authenticate: {said}") from error
        if self._changed:
            self._changed = False
            self._save()
        header: str | None = receiver.api_key.get("BearerToken")
        return header and one_line(header, self._label)

    def _loader(self) -> Any:
        """A loader of a kubeconfig that has just this user, and no certificates: those are read elsewhere."""
        found = loaders()
        config = {
            "current-context": "context",
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
            "clusters": [{"name": "cluster", "cluster": {"server": "http://unused"}}],
            "users": [{"name": "user", "user": self._user.value}],
        }
        path = str(self._user.path)
        return found.kubeconfig(
            found.node("kubeconfig", config, path), config_base_path=None, config_persister=self._note_change
        )

    def _drop_rejected_token(self) -> None:
        provider = self._user.value.get("auth-provider")
        settings = provider.get("config") if isinstance(provider, dict) else None
        if isinstance(settings, dict) and settings.get("refresh-token"):
            settings.pop("id-token", None)

    def _note_change(self, _: object) -> None:
        self._changed = True

    def _save(self) -> None:
        """Write new tokens into the file they came from: a provider may take a refresh token only once."""
        path = self._user.path
        try:
            document = yaml_text.load(path.read_bytes())
            for user in document["users"]:
                if user["name"] == self._user.name:
                    user["user"] = self._user.value
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
                yaml.safe_dump(document, file, default_flow_style=False)
            Path(file.name).chmod(path.stat().st_mode)
            Path(file.name).replace(path.resolve())
        except (OSError, KeyError, TypeError, yaml.YAMLError):
            # The tokens at hand are good; a file that cannot be written is no reason to stop.
            return


def _exec_plugin(choice: Choice, user: Entry, label: str, environ: Mapping[str, str]) -> ExecPlugin:
    try:
        spec = msgspec.convert(user.value["exec"], ExecSpec)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise ConfigError(f"{label}: exec: {error}") from error
    cluster = {key: value for key, value in choice.cluster.value.items() if key in _EXEC_CLUSTER_KEYS}
    if "certificate-authority-data" not in cluster and (
        ca := pem_of(choice.cluster, "certificate-authority")
    ):
        cluster["certificate-authority-data"] = base64.b64encode(ca.read()).decode()
    for extension in choice.cluster.several("extensions"):
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            cluster["config"] = extension.get("extension")
    return ExecPlugin(spec, f"{label}: exec {spec.command!r}", user.path.parent, cluster, environ)


def _line(user: Entry, key: str, value: object) -> str:
    """The value of a header."""
    if not isinstance(value, str):
        raise ConfigError(f"{user.path}: user {user.name!r}: {key}: a value is not text")
    if any(character in value for character in "\r\n\0") or not _is_encodable(value):
        raise ConfigError(f"{user.path}: user {user.name!r}: {key}: {value!r} is not one line of text")
    return value


def _is_encodable(text: str) -> bool:
    """Whether there are bytes for it, as there are not for half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _resolve(name: str, entry: Entry) -> Path:
    if any(character in name for character in "\r\n\0") or not _is_encodable(name):
        raise ConfigError(f"{entry.path}: {name!r}, in {entry.name!r}, cannot be the name of a file")
    return entry.path.parent / name
