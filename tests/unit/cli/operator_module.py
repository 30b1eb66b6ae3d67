"""An operator for tests of the command line."""

from __future__ import annotations

from typing import Any

from apis.cache.v1.memcached import Memcached

KINDS = (Memcached,)
RECONCILERS = ()


def setup(manager: Any, options: Any) -> None:
    manager.set_up.append(options)
