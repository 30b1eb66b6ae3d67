"""`make demo`: create each sample on an embedded control plane, wait until it is ready, and delete it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import yaml
from pydantic import ValidationError

from manager.api import GroupVersionKind, Resource
from manager.kube.errors import KubeError
from manager.telemetry.logs import configured
from manager_tools.scaffold.project.controllers.main import OPERATORS
from manager_tools.testing import World, operated

SAMPLES = Path(__file__).parent / "config" / "samples"
PATIENCE = 30
"""Seconds for each sample."""


async def demo() -> None:
    """Create each sample of this project's kinds, in any version, and follow it until its deletion."""
    kinds = {kind.gvk: kind for operator in OPERATORS for kind in operator.kinds()}
    async with operated(*OPERATORS, pod_ready_delay=1) as world:
        for path in sorted(SAMPLES.glob("*.yaml")):
            sample = yaml.safe_load(path.read_text())
            if kind := kinds.get(GroupVersionKind.from_api_version(sample["apiVersion"], sample["kind"])):
                try:
                    await follow(world, kind.model_validate(sample))
                except ValidationError as error:
                    wrong = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
                    sys.exit(f"{path.name}: {'; '.join(wrong)}")
                except KubeError as error:
                    sys.exit(f"{path.name}: {error}")


async def follow(world: World, obj: Resource) -> None:
    """Create an object, print its conditions whenever they change, and delete it when it is ready."""
    told: list[str] = []

    def has_come_up(found: Resource) -> bool:
        conditions = (found.to_wire().get("status") or {}).get("conditions") or []
        news = [f"{each['type']}={each['status']} {each['reason']}: {each['message']}" for each in conditions]
        if news != told:
            told[:] = news
            say(f"{found.kind} {found.metadata.name}: {', '.join(news)}")
        return is_ready(found)

    say(f"{obj.kind} {obj.metadata.name}: created")
    try:
        ready = await world.until(await world.create(obj), has_come_up, timeout=PATIENCE)
    except AssertionError:
        sys.exit(f"{obj.kind} {obj.metadata.name} is not ready after {PATIENCE} s")
    await world.delete(ready)
    try:
        await world.until_gone(ready, timeout=PATIENCE)
    except AssertionError as error:
        sys.exit(str(error))
    say(f"{obj.kind} {obj.metadata.name}: deleted")


def is_ready(obj: Resource) -> bool:
    """Return whether the operator has processed the object's spec, and its conditions are good.

    If there is a condition Ready or Available, only that condition counts. An object is ready if its kind has
    no status.
    """
    status = obj.to_wire().get("status")
    if "status" not in type(obj).model_fields or not isinstance(status, dict):
        return "status" not in type(obj).model_fields
    if status.get("observedGeneration", obj.metadata.generation) != obj.metadata.generation:
        return False
    held: dict[str, bool] = {
        each["type"]: each["status"] == "True" for each in status.get("conditions") or ()
    }
    for name in ("Ready", "Available"):
        if name in held:
            return held[name]
    if not held:
        return bool({name for name, value in status.items() if value})
    return all(holds is (name not in NEGATIVE) for name, holds in held.items())


NEGATIVE = {"Degraded", "Failed", "Progressing", "Reconciling", "Stalled"}
"""Types of conditions that are False when the object is in its desired state."""


def say(line: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with configured(level="warn"):
        asyncio.run(demo())
