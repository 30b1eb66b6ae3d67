"""Pet: what is put right before it is stored, what is refused, and what is warned about.

None of it stands in the way of whoever only removes a finalizer: an object that came in before a rule did,
or while nobody was asked, can be edited and deleted as ever, as long as what is wrong is not written anew.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from apis.petstore.v1alpha1.pet import Pet as OldPet
from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.birthday import InvalidBirthday, day_of
from manager import clock
from manager.webhook import Admission, AdmissionRequest, JsonObject, Refused, invalid

__all__ = ["FIRST_BIRTHDAY", "admission", "check", "check_change", "tidy"]

FIRST_BIRTHDAY = datetime.date(1900, 1, 1)
"""No pet is older than this."""

_SHOWN = 64
"""Characters of a birthday that a message repeats."""

admission = Admission(Pet)


@admission.default
async def tidy(pet: JsonObject, request: AdmissionRequest) -> None:
    """Trim the name and write the species in lower case, where this request brings them.

    What is no text is left to the schema to refuse, and so is a name with nothing in it but space: trimmed,
    the message would quote a name that nobody has written. Space is what the store, and the schema, call
    blank. What was stored untrimmed stays as it is while only something else is written: taking a finalizer
    away renames no pet.
    """
    spec, old = _spec(pet), _spec(request.old_object)
    name, species = spec.get("name"), spec.get("species")
    if isinstance(name, str) and name != old.get("name"):
        spec["name"] = name.strip() or name
    if isinstance(species, str) and species != old.get("species"):
        spec["species"] = species.lower()


@admission.validate_create
async def check(pet: Pet, _: AdmissionRequest) -> None:
    """Refuse a birthday that cannot be one."""
    _check_birthday(pet.spec.birthday)


@admission.validate_update
async def check_change(old: Pet, new: Pet, request: AdmissionRequest) -> Iterable[str]:
    """Refuse a new birthday that cannot be one, and warn of a pet that becomes another animal.

    What is being deleted may become anything: nobody will have it for long.
    """
    if new.metadata.deletion_timestamp is not None:
        return ()
    if new.spec.birthday != old.spec.birthday:
        _check_birthday(new.spec.birthday)
    if new.spec.species == old.spec.species:
        return ()
    field = "spec.type" if request.requested_kind == OldPet.gvk else "spec.species"
    change = f"{field}: changed from {old.spec.species} to {new.spec.species}"
    return (f"{change}; the pet keeps its record in the store: for another animal, make another Pet",)


def _spec(pet: JsonObject | None) -> JsonObject:
    """The spec, as far as there is one that can be read."""
    spec = (pet or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _check_birthday(birthday: str) -> None:
    """Refuse a day after today, in UTC, or before the first one.

    What is no day at all comes from v1alpha1 alone, whose schema lets pass moments that no calendar has.
    """
    try:
        day = day_of(birthday)
    except InvalidBirthday:
        # As long as one likes: it may have any number of digits behind the second.
        raise Refused(invalid("spec.birthday", birthday[:_SHOWN], "must be a day of the calendar")) from None
    today = clock.now().date()
    if day > today:
        raise Refused(invalid("spec.birthday", birthday, f"must not be in the future (it is {today} in UTC)"))
    if day < FIRST_BIRTHDAY:
        raise Refused(invalid("spec.birthday", birthday, f"must not be before {FIRST_BIRTHDAY}"))
