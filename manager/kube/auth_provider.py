"""Users whose token an auth-provider renews (OpenID Connect, gcloud): what kubernetes-asyncio knows of them.

Its packages import every generated model on the way to their smallest module: more than 30 MB and 800
modules, to read a kubeconfig. Here the few modules that are wanted are executed as private ones, whose
imports of each other lead to each other: `sys.modules` has none of them, and whoever imports
kubernetes-asyncio gets all of it.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib.util
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import yaml

from manager import yaml_text
from manager.kube.credentials import Credentials, Obtained, one_line
from manager.kube.errors import ConfigError
from manager.kube.kubeconfig import Entry
from manager.kube.tls import in_thread
from manager.small_file import read_small_file

_PACKAGE = "kubernetes_asyncio"
_LOADER = f"{_PACKAGE}.config.kube_config"

_CHECK_INTERVAL = 30.0
"""Seconds between two questions whether a provider's token is still good; it answers from memory."""

_TIMEOUT = 30.0
"""Seconds for a provider to answer."""


class AuthProvider(Credentials):
    """What the `auth-provider` of a user gives, and else his token or password."""

    def __init__(self, user: Entry, label: str) -> None:
        super().__init__()
        self._label = label
        self._user = user
        self._changed = False

    async def obtain(self, *, rejected: bool) -> Obtained:
        """What the loader says; it asks the provider again once its token has expired."""
        if rejected:
            self._drop_rejected_token()
        header = await in_thread(self._header)
        if header is None:
            raise ConfigError(f"{self._label}: cannot authenticate: its auth-provider is unknown")
        return Obtained(header, _CHECK_INTERVAL)

    def _header(self) -> str | None:
        # In a thread, with an event loop of its own: the loader reads files and imports as it goes.
        header = asyncio.run(self._load(private_module(_LOADER)))
        if self._changed:
            self._changed = False
            self._save()
        return header

    async def _load(self, found: Any) -> str | None:
        receiver = SimpleNamespace(api_key={})
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._loader(found).load_and_set(receiver)
        except Exception as error:
            # It reports what it meets in many ways: its own error, KeyError, ValueError, aiohttp's…
            said = " ".join(str(error).split()) or type(error).__name__
            raise ConfigError(f"{self._label}: cannot authenticate: {said}") from error
        header: str | None = receiver.api_key.get("BearerToken")
        return header and one_line(header, self._label)

    def _loader(self, found: Any) -> Any:
        """A loader of a kubeconfig that has just this user, and no certificates: those are read elsewhere."""
        config = {
            "current-context": "context",
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
            "clusters": [{"name": "cluster", "cluster": {"server": "http://unused"}}],
            "users": [{"name": "user", "user": self._user.value}],
        }
        node = found.ConfigNode("kubeconfig", config, str(self._user.path))
        return found.KubeConfigLoader(node, config_base_path=None, config_persister=self._note_change)

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
            document = yaml_text.load(read_small_file(path))
            for user in document["users"]:
                if user["name"] == self._user.name:
                    user["user"] = self._user.value
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
                yaml.safe_dump(document, file, default_flow_style=False)
            Path(file.name).chmod(path.stat().st_mode)
            Path(file.name).replace(path.resolve())
        except (OSError, KeyError, TypeError, yaml.YAMLError, yaml_text.NotYaml):
            # The tokens at hand are good; a file that cannot be written is no reason to stop.
            return


@cache
def private_module(name: str) -> Any:
    """One module of kubernetes-asyncio, without the packages that it is in; the same at each call."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise ConfigError(f"{_PACKAGE} is not installed")
    path = Path(package.submodule_search_locations[0], *name.split(".")[1:]).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
    spec.loader.exec_module(module)
    return module


def _import(name: str, *arguments: Any, **named: Any) -> ModuleType | SimpleNamespace:
    """`import`, for a private module."""
    if name == f"{_PACKAGE}.client":
        # Wanted by functions that make a client, which are not used here.
        return SimpleNamespace(ApiClient=None, Configuration=None)
    if name.startswith(f"{_PACKAGE}."):
        found: ModuleType = private_module(name)
        return found
    return builtins.__import__(name, *arguments, **named)
