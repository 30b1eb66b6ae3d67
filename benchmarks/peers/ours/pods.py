"""A cache of all Pods, whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manager.api.core_v1 import Pod

if TYPE_CHECKING:
    from manager.controller import ControllerOptions
    from manager.manager import Manager

KINDS = ()
RECONCILERS = ()


def setup(manager: Manager, options: ControllerOptions) -> None:  # noqa: ARG001 -- as every operator has it
    """Nothing reads it."""
    manager.cache.informer(Pod)
