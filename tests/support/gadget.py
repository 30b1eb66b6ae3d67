"""A kind with two versions, and the operator that it belongs to."""

from __future__ import annotations

from manager import Operator, webhook
from manager.api import ApiModel, Resource, crd
from manager.webhook import JsonObject


class GadgetSpec(ApiModel):
    """The gadget that is wanted."""

    size: int = 1


@crd(status=False)
class Gadget(Resource, group="test.example.com", version="v1", plural="gadgets", namespaced=False):
    """A gadget."""

    spec: GadgetSpec


@crd(storage=False, status=False, deprecated="use test.example.com/v1")
class OldGadget(
    Resource, group="test.example.com", version="v1beta1", kind="Gadget", plural="gadgets", namespaced=False
):
    """A gadget, as it was."""

    spec: GadgetSpec


class GadgetOperator(Operator[Gadget]):
    """Reconciles nothing."""

    versions = (OldGadget,)

    @webhook.to_hub(OldGadget)
    async def from_v1beta1(self, gadget: JsonObject) -> None:
        """Leave the object unchanged: the versions are equal."""

    @webhook.from_hub(OldGadget)
    async def to_v1beta1(self, gadget: JsonObject) -> None:
        """Leave the object unchanged: the versions are equal."""
