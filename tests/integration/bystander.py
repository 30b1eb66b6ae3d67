"""A program with all operators and one more, which copies `data.say` of each ConfigMap into an annotation.

python -m tests.integration.bystander run ...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from controllers.main import OPERATORS
from manager.api import Resource
from manager.cache import reflector
from manager.cli import Operator, main
from manager.controller import ControllerBuilder, ControllerOptions, Request, Result
from manager.rbac import rbac

if TYPE_CHECKING:
    from manager.client import Client
    from manager.manager import Manager

SAID = "bystander.example.com/said"
ROLE = Path(__file__).resolve().with_suffix(".yaml")


class ConfigMap(Resource, group="", version="v1", plural="configmaps"):
    """As much of it as the bystander reads."""

    data: dict[str, str] = Field(default_factory=dict)


@rbac(groups="", resources="configmaps", verbs="watch;patch")
class BystanderReconciler:
    """Says what it is told to."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one annotation up to date."""
        config_map = await self.client.find(ConfigMap, request)
        if config_map is not None and "say" in config_map.data:
            config_map.metadata.annotations[SAID] = config_map.data["say"]
            await self.client.patch(config_map)
        return None


def setup(manager: Manager, options: ControllerOptions) -> None:
    """Wire the controller up."""
    (
        ControllerBuilder(manager, ConfigMap)
        .named("bystander")
        .options(options)
        .complete(BystanderReconciler(manager.client.named("bystander")))
    )


KINDS = ()
RECONCILERS = (BystanderReconciler,)

if __name__ == "__main__":
    if seconds := os.environ.get("BYSTANDER_WATCH_SILENCE"):
        reflector.IDLE_TIMEOUT = float(seconds)
    sys.exit(
        main(
            sys.argv[1:],
            (*OPERATORS, Operator("bystander", "tests.integration.bystander")),
            name="operator-manager",
            version="1",
        )
    )
