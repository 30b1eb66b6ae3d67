"""`make demo`: each sample on an embedded control plane, from its creation until it is Ready, to its end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import yaml

from manager.api import GroupVersionKind, Resource
from manager.logs import configured
from manager.scaffold.project.controllers.main import OPERATORS
from manager.testing import World, operated

SAMPLES = Path(__file__).parent / "config" / "samples"
PATIENCE = 30
"""Seconds for each sample."""


async def demo() -> None:
    """Follow each sample of the kinds that there are, whichever version it is in."""
    kinds = {kind.gvk: kind for operator in OPERATORS for kind in operator.kinds()}
    async with operated(*OPERATORS, pod_ready_delay=1) as world:
        for path in sorted(SAMPLES.glob("*.yaml")):
            sample = yaml.safe_load(path.read_text())
            if kind := kinds.get(GroupVersionKind.from_api_version(sample["apiVersion"], sample["kind"])):
                await follow(world, kind.model_validate(sample))


async def follow(world: World, obj: Resource) -> None:
    """Create an object, print its conditions each time that they change, and delete it once it is Ready."""
    told: list[str] = []

    def is_ready(found: Resource) -> bool:
        conditions = found.to_wire().get("status", {}).get("conditions", [])
        news = [f"{each['type']}={each['status']} {each['reason']}: {each['message']}" for each in conditions]
        if news != told:
            told[:] = news
            say(f"{found.kind} {found.metadata.name}: {', '.join(news)}")
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    say(f"{obj.kind} {obj.metadata.name}: created")
    try:
        ready = await world.until(await world.create(obj), is_ready, timeout=PATIENCE)
    except AssertionError:
        sys.exit(f"{obj.kind} {obj.metadata.name} is not Ready after {PATIENCE} s")
    await world.delete(ready)
    try:
        await world.until_gone(ready, timeout=PATIENCE)
    except AssertionError as error:
        sys.exit(str(error))
    say(f"{obj.kind} {obj.metadata.name}: deleted")


def say(line: str) -> None:
    """Tell whoever watches, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with configured(level="warn"):
        asyncio.run(demo())
