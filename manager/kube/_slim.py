"""The few modules of kubernetes-asyncio that are wanted, without the hundreds that are not.

Its packages import every generated model on the way to their smallest module: more than 30 MB and
800 modules, to read a kubeconfig. Here the packages stand in `sys.modules` as shells that only know
their folder while the wanted modules are imported, and are taken out again: whoever imports
kubernetes-asyncio later gets all of it, as if this had never happened. Where it has been imported
already, that is used.
"""

from __future__ import annotations

import importlib.util
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes_asyncio.config.kube_config import ConfigNode, KubeConfigLoader

_PACKAGE = "kubernetes_asyncio"


@dataclass(frozen=True, slots=True)
class Loaders:
    """The wanted classes.

    Attributes:
        kubeconfig: works out how the user of a kubeconfig authenticates.
        node: a part of a kubeconfig, as `kubeconfig` takes it.
        error: what they raise when a kubeconfig is wrong.
    """

    kubeconfig: type[KubeConfigLoader]
    node: type[ConfigNode]
    error: type[Exception]


@cache
def loaders() -> Loaders:
    """Import the wanted modules; the first call takes some milliseconds, later ones nothing."""
    if _PACKAGE in sys.modules:
        return _import()
    with _shells():
        return _import()


def _import() -> Loaders:
    module: Any = import_module(f"{_PACKAGE}.config.kube_config")
    return Loaders(kubeconfig=module.KubeConfigLoader, node=module.ConfigNode, error=module.ConfigException)


@contextmanager
def _shells() -> Iterator[None]:
    """While entered, the packages are shells; afterwards nothing of them is left in `sys.modules`."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError(f"{_PACKAGE} is not installed", name=_PACKAGE)
    root = spec.submodule_search_locations[0]
    for name in ("", "client", "config"):
        shell: Any = ModuleType(f"{_PACKAGE}.{name}".rstrip("."))
        shell.__path__ = [f"{root}/{name}"]
        # The loader imports these by name, for functions that make a client, which are not used here.
        shell.ApiClient = shell.Configuration = None
        sys.modules[shell.__name__] = shell
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]
