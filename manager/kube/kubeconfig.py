"""Kubeconfig files: merged as kubectl merges them, one context of them chosen, and its user's credentials."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from manager.kube.credentials import Credentials, FixedCredentials, TokenFile, one_line
from manager.kube.errors import ConfigError
from manager.kube.exec_plugin import ExecCredentials, ExecSpec
from manager.kube.tls import Pem
from manager.util.small_file import read_small_file

_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A named cluster, context or user.

    Attributes:
        name: its name.
        value: what the file says of it.
        path: the file, whose folder relative paths in `value` start from.
    """

    name: str
    value: dict[str, Any]
    path: Path

    def text(self, key: str) -> str | None:
        """Return the text at a key; None if it is absent or empty.

        Raises `ConfigError` if the value is not text.
        """
        value = self.value.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise ConfigError(f"{self.path}: {key} of {self.name!r} is not text")
        return value

    def flag(self, key: str) -> bool:
        """Return the boolean at a key; raise `ConfigError` if the value is not a boolean."""
        value = self.value.get(key, False)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.path}: {key} of {self.name!r} is neither true nor false")
        return value

    def several(self, key: str) -> list[Any]:
        """Return the list at a key; empty if it is absent.

        Raises `ConfigError` if the value is not a list.
        """
        value = self.value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ConfigError(f"{self.path}: {key} of {self.name!r} is not a list")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """Cluster, user and namespace that one context selects.

    Attributes:
        context: the context's name.
        cluster: the cluster to talk to.
        user: the user to authenticate as; None for a context that names no user.
        namespace: the context's namespace; None if it names none.
        source: the origin of these values, for messages.
    """

    context: str
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
        """Resolve `context`, or the current context if it is None.

        Raises:
            ConfigError: the context does not exist, or refers to a missing entry.
        """
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
            context=name,
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

    Args:
        paths: the files, the one that counts most first.
        source: what to call them in messages.

    Raises:
        ConfigError: none of them exists, or one cannot be read or is not a kubeconfig.
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
    from manager.util import yaml_text  # noqa: PLC0415 - a pod has no kubeconfig

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
    if (token_file := user.text("tokenFile")) is not None:
        return TokenFile(_resolve("tokenFile", token_file, user), label=f"{label}: tokenFile")
    header = _header_of(user, label)
    if header is None and user.value.get("exec") is not None:
        return _exec_credentials(choice, user, label, environ)
    return FixedCredentials(header)


def _header_of(user: Entry, label: str) -> str | None:
    """Return the Authorization header from the user's token, or from username and password."""
    if (token := user.text("token")) is not None:
        return one_line(f"Bearer {token}", label)
    if not {"username", "password"} <= user.value.keys():
        return None
    password = f"{user.text('username') or ''}:{user.text('password') or ''}"
    if not _is_encodable(password):
        raise ConfigError(f"{label}: username and password are not text")
    return f"Basic {base64.b64encode(password.encode()).decode()}"


def pem_of(entry: Entry, key: str) -> Pem | None:
    """Return the certificate or key that an entry holds as `<key>-data`, or whose file it names as `<key>`.

    Raises:
        ConfigError: the data are not base64.
    """
    if (data := entry.text(f"{key}-data")) is not None:
        label = f"{entry.path}: {key}-data of {entry.name!r}"
        try:
            if data.endswith("=") and len(data.rstrip("=")) % 4 == 0:
                raise ValueError("Excess padding")  # noqa: TRY301 - which Python before 3.13 passes over
            return Pem(label, data=base64.b64decode(data, validate=True))
        except ValueError as error:  # text that is not ASCII raises no binascii.Error
            raise ConfigError(f"{label}: not base64: {error}") from error
    if (name := entry.text(key)) is not None:
        return Pem(f"{entry.path}: {key} of {entry.name!r}", path=_resolve(key, name, entry))
    return None


def impersonation_of(user: Entry | None) -> list[tuple[str, str]]:
    """Return the impersonation headers of a user (`as`, `as-groups`, `as-uid`, `as-user-extra`)."""
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
        raise ConfigError(f"{user.path}: user {user.name!r} impersonates nobody: 'as' is missing")
    return headers


def _exec_credentials(choice: Choice, user: Entry, label: str, environ: Mapping[str, str]) -> ExecCredentials:
    try:
        spec = msgspec.convert(user.value["exec"], ExecSpec)
        spec.check()
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{label}: exec: {error}") from error
    cluster = {key: value for key, value in choice.cluster.value.items() if key in _EXEC_CLUSTER_KEYS}
    if "certificate-authority-data" not in cluster and (
        ca := pem_of(choice.cluster, "certificate-authority")
    ):
        cluster["certificate-authority-data"] = base64.b64encode(ca.read()).decode()
    for extension in choice.cluster.several("extensions"):
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
    """Return whether there are bytes for it, as there are not for half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _resolve(key: str, name: str, entry: Entry) -> Path:
    if any(character in name for character in "\r\n\0") or not _is_encodable(name):
        # Not quoted: some put the key itself there.
        raise ConfigError(f"{entry.path}: {key} of {entry.name!r} cannot be the name of a file")
    return entry.path.parent / name
