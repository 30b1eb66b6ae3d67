"""A program with all operators and one more, which copies `data.say` of each ConfigMap into an annotation.

python -m tests.integration.bystander run ...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pydantic import Field

from controllers.main import OPERATORS
from manager import Context, Operator
from manager.api import Resource
from manager.cache import reflector
from manager.cli import main

SAID = "bystander.example.com/said"
ROLE = Path(__file__).resolve().with_suffix(".yaml")


class ConfigMap(Resource, group="", version="v1", plural="configmaps"):
    """As much of it as the bystander reads."""

    data: dict[str, str] = Field(default_factory=dict)


class BystanderOperator(Operator[ConfigMap]):
    """Says what it is told to."""

    name = "bystander"

    async def reconcile(self, config_map: ConfigMap, ctx: Context) -> None:
        """Bring one annotation up to date."""
        if "say" in config_map.data:
            config_map.metadata.annotations[SAID] = config_map.data["say"]
            await ctx.patch()


if __name__ == "__main__":
    if seconds := os.environ.get("BYSTANDER_WATCH_SILENCE"):
        reflector.IDLE_TIMEOUT = float(seconds)
    sys.exit(main(sys.argv[1:], (*OPERATORS, BystanderOperator), name="operator-manager", version="1"))
