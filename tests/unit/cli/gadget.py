"""A kind with two versions, and the operator that it belongs to."""

from __future__ import annotations

from manager.api import ApiModel, Resource, crd
from manager.webhook import Conversion, JsonObject

__all__ = ["KINDS", "RECONCILERS", "WEBHOOKS", "Gadget", "OldGadget"]


class GadgetSpec(ApiModel):
    """The gadget that is wanted."""

    size: int = 1


@crd(status=False)
class Gadget(Resource, group="test.example.com", version="v1", plural="gadgets"):
    """A gadget."""

    spec: GadgetSpec


@crd(storage=False, status=False)
class OldGadget(Resource, group="test.example.com", version="v1beta1", kind="Gadget", plural="gadgets"):
    """A gadget, as it was."""

    spec: GadgetSpec


conversion = Conversion(Gadget)


@conversion.to_hub(OldGadget)
@conversion.from_hub(OldGadget)
async def convert(gadget: JsonObject) -> None:
    """Nothing differs between the versions."""


KINDS = (OldGadget, Gadget)
RECONCILERS: tuple[type, ...] = ()
WEBHOOKS = (conversion,)
