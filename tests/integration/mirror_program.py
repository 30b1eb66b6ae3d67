"""A program that copies each Foo into a ConfigMap; `MIRROR` sets the program's name.

MIRROR=NAME python -m tests.integration.mirror_program run ...
"""

from __future__ import annotations

import os
import sys

from pydantic import Field

from apis.tutorial.v1.foo import Foo
from manager import ObjectKey, Operator, Result, webhook
from manager.api import ObjectMeta, Resource
from manager.cli import main
from manager.webhook import AdmissionRequest, JsonObject

__all__ = ["VARIABLE"]

VARIABLE = "MIRROR"


class ConfigMap(Resource, group="", version="v1", plural="configmaps"):
    """Some texts by their names."""

    data: dict[str, str] = Field(default_factory=dict)


class MirrorOperator(Operator[Foo]):
    """Operator that copies each Foo into a ConfigMap."""

    name = "mirror"
    owns = (ConfigMap,)
    admission = webhook.AdmissionOptions(failure_policy="Ignore")

    async def reconcile_key(self, key: ObjectKey) -> Result | None:
        """Note one Foo."""
        foo = await self.client.find(Foo, key)
        if foo is not None:
            metadata = ObjectMeta(name=foo.metadata.name, namespace=foo.metadata.namespace)
            # Both programs write this object, each to its own field.
            data = {self.manager.program.name: foo.spec.name}
            await self.client.apply(ConfigMap(metadata=metadata, data=data))
            self.manager.events.event(foo, "Normal", "Mirrored", "Noted it")
        return None

    @webhook.default
    async def note(self, foo: JsonObject, request: AdmissionRequest) -> None:
        """Return the object unchanged."""

    @webhook.validate_create
    async def accept(self, foo: Foo, request: AdmissionRequest) -> None:
        """Accept every object."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], (MirrorOperator,), name=os.environ[VARIABLE], version="1.2"))
