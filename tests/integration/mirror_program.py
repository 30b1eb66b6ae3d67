"""A program that copies each Foo into a ConfigMap; the environment variable MIRROR is the program's name.

MIRROR=NAME python -m tests.integration.mirror_program run ...
"""

from __future__ import annotations

import os
import sys

from apis.tutorial.v1.foo import Foo
from manager import Context, Operator, webhook
from manager.api import ObjectMeta
from manager.cli import main
from manager.webhook import AdmissionRequest, JsonObject
from manager_kinds.core_v1 import ConfigMap

__all__ = ["VARIABLE"]

VARIABLE = "MIRROR"


class MirrorOperator(Operator[Foo]):
    """Operator that copies each Foo into a ConfigMap."""

    name = "mirror"
    owns = (ConfigMap,)
    admission = webhook.AdmissionOptions(failure_policy="Ignore")

    async def reconcile(self, foo: Foo, ctx: Context) -> None:
        """Apply the ConfigMap that all programs share; set only the key that is the name of this program."""
        metadata = ObjectMeta(name=foo.metadata.name, namespace=foo.metadata.namespace)
        data = {self.manager.program.name: foo.spec.name}
        await self.client.apply(ConfigMap(metadata=metadata, data=data))
        self.manager.events.event(foo, "Normal", "Mirrored", "Noted it")

    @webhook.default
    async def note(self, foo: JsonObject, request: AdmissionRequest) -> None:
        """Change nothing."""

    @webhook.validate_create
    async def accept(self, foo: Foo, request: AdmissionRequest) -> None:
        """Accept every object."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], (MirrorOperator,), name=os.environ[VARIABLE], version="1.2"))
