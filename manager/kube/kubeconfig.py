"""Kubeconfig files: found, merged as kubectl merges them, and one context of them chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manager.kube.errors import ConfigError
from manager.small_file import read_small_file

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
        """The value of a key that holds text; None where it is absent or empty.

        Raises `ConfigError` where it is something else.
        """
        value = self.value.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise ConfigError(f"{self.path}: {key} of {self.name!r} is not text")
        return value

    def flag(self, key: str) -> bool:
        """The value of a key that is true or false; raises `ConfigError` where it is something else."""
        value = self.value.get(key, False)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.path}: {key} of {self.name!r} is neither true nor false")
        return value

    def several(self, key: str) -> list[Any]:
        """The value of a key that holds a list; empty where it is absent.

        Raises `ConfigError` where it is something else.
        """
        value = self.value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ConfigError(f"{self.path}: {key} of {self.name!r} is not a list")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """What one context stands for.

    Attributes:
        context: the context's name.
        cluster: the cluster to talk to.
        user: who to be; None for a context that names no user.
        namespace: the context's namespace, None where it has none.
        source: where all this was found, for messages.
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
        """What `context` stands for, or without one the current context.

        Raises:
            ConfigError: there is no such context, or it refers to something that is not there.
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
    from manager import yaml_text  # noqa: PLC0415 - a pod has no kubeconfig

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
