"""A program that notes each Foo in a ConfigMap, under whatever name it is given.

MIRROR=NAME python -m tests.integration.mirror_program run ...
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pydantic import Field

from apis.tutorial.v1.foo import Foo
from manager.api import ObjectMeta, Resource
from manager.cli import Operator, main
from manager.controller import ControllerBuilder
from manager.webhook import Admission, AdmissionRequest, JsonObject

if TYPE_CHECKING:
    from manager.controller import ControllerOptions, Request, Result
    from manager.manager import Manager

__all__ = ["VARIABLE"]

VARIABLE = "MIRROR"
THIS = "tests.integration.mirror_program"

admission = Admission(Foo, failure_policy="Ignore")


@admission.default
async def note(foo: JsonObject, request: AdmissionRequest) -> None:
    """Change nothing."""


@admission.validate_create
async def accept(foo: Foo, request: AdmissionRequest) -> None:
    """Refuse nothing."""


class ConfigMap(Resource, group="", version="v1", plural="configmaps"):
    """Some texts by their names."""

    data: dict[str, str] = Field(default_factory=dict)


class _Mirror:
    def __init__(self, manager: Manager) -> None:
        self._client = manager.client.named("mirror")
        self._events = manager.events
        self._program = manager.program.name

    async def reconcile(self, request: Request) -> Result | None:
        foo = await self._client.find(Foo, request)
        if foo is not None:
            metadata = ObjectMeta(name=foo.metadata.name, namespace=foo.metadata.namespace)
            # Both programs write it, each a field of its own.
            await self._client.apply(ConfigMap(metadata=metadata, data={self._program: foo.spec.name}))
            self._events.event(foo, "Normal", "Mirrored", "Noted it")
        return None


def setup(manager: Manager, options: ControllerOptions) -> None:
    """As every operator's."""
    ControllerBuilder(manager, Foo).owns(ConfigMap).options(options).complete(_Mirror(manager))


KINDS = (Foo,)
RECONCILERS = ()
WEBHOOKS = (admission,)

if __name__ == "__main__":
    mirror = Operator("mirror", THIS, webhooks=THIS)
    sys.exit(main(sys.argv[1:], (mirror,), name=os.environ[VARIABLE], version="1.2"))
