"""An operator as the command line knows it: a name, and where its code is."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from manager.api import Resource
    from manager.controller import ControllerOptions
    from manager.manager import Manager
    from manager.setting import Setting
    from manager.webhook import Admission, Conversion

__all__ = ["Operator", "OperatorModule", "WebhookModule"]


class OperatorModule(Protocol):
    """What the module of an operator has to offer."""

    @property
    def KINDS(self) -> Sequence[type[Resource]]:  # noqa: N802 - a module's constant
        """The kinds it defines, whose CRDs it needs."""

    @property
    def RECONCILERS(self) -> Sequence[type]:  # noqa: N802 - a module's constant
        """Its reconcilers, which carry the markers that roles are made from."""

    def setup(self, manager: Manager, options: ControllerOptions) -> None:
        """Add its controllers to `manager`."""


class WebhookModule(Protocol):
    """What the module of an operator's webhooks has to offer."""

    @property
    def WEBHOOKS(self) -> Sequence[Admission[Any] | Conversion]:  # noqa: N802 - a module's constant
        """Everything it registers."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator. Its module is imported when it is needed, and not at all when it is disabled."""

    name: str
    """The controller's name: in `--controllers`, in `--concurrency` and in the label of metrics."""

    module: str
    """The dotted name of the module."""

    settings: tuple[Setting[Any], ...] = ()
    """The settings it declares. They are known whether it runs or not, so their own module is a light one."""

    webhooks: str | None = None
    """The dotted name of the module whose `WEBHOOKS` lists its admission and conversion functions; None for
    none. They are served wherever webhooks are, also where the operator itself is disabled."""

    def load(self) -> OperatorModule:
        """Import the module."""
        return cast("OperatorModule", importlib.import_module(self.module))

    def load_webhooks(self) -> Sequence[Admission[Any] | Conversion]:
        """Import the module of its webhooks, and return what it registers; nothing where there is none."""
        if self.webhooks is None:
            return ()
        return cast("WebhookModule", importlib.import_module(self.webhooks)).WEBHOOKS
