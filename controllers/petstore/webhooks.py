"""Pet: what the API server asks of it: what its rules say, and its form in another version.

Imports nothing of the store: webhooks are served where the operator itself does not run, too.
"""

from __future__ import annotations

from apis.petstore.v1alpha1.pet import Pet as OldPet
from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.admission import admission
from controllers.petstore.conversion import v1alpha1_to_v1beta1, v1beta1_to_v1alpha1
from manager.webhook import Conversion, JsonObject

__all__ = ["WEBHOOKS", "conversion"]

conversion = Conversion(Pet)


@conversion.to_hub(OldPet)
async def from_v1alpha1(pet: JsonObject) -> None:
    """Show a Pet of v1alpha1 in v1beta1."""
    v1alpha1_to_v1beta1(pet)


@conversion.from_hub(OldPet)
async def to_v1alpha1(pet: JsonObject) -> None:
    """Show a Pet of v1beta1 in v1alpha1."""
    v1beta1_to_v1alpha1(pet)


WEBHOOKS = (admission, conversion)
