"""What cannot be so is refused where it is declared, in one line that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from manager import Context, Operator, webhook
from manager.operator import add_controller
from manager.testing import without_manager
from manager.webhook import JsonObject, RegistrationError
from manager.webhook.methods import registrations
from tests.unit.cli.gadget import Gadget, OldGadget


@pytest.mark.parametrize("name", ["owns", "watches", "reads", "versions", "rights", "conditions"])
def test_several_of_something_are_a_tuple(name: str):
    with pytest.raises(TypeError, match=rf"^Bad.{name} has to be a tuple, as in `{name} = \(Deployment,\)`$"):
        type("Bad", (Operator,), {"kind": Gadget, name: Gadget})


@pytest.mark.parametrize("name", ["reconcile", "reconcile_key", "cleanup", "gone", "on_error"])
def test_what_the_runtime_awaits_is_async(name: str):
    with pytest.raises(TypeError, match=rf"^Bad.{name} has to be an `async def`$"):
        type("Bad", (Operator,), {"kind": Gadget, name: lambda *_: None})


def test_one_without_a_kind_is_made_by_nobody():
    class Lost(Operator[Any]):
        """Of nothing."""

    with pytest.raises(TypeError, match=r"^Lost has no kind: class Lost\(Operator\[Kind\]\)$"):
        without_manager(Lost)


def test_one_that_would_do_nothing_is_refused():
    class Idle(Operator[Gadget]):
        """Neither reconciles nor judges."""

    with pytest.raises(TypeError, match=r"^Idle has no reconcile, and no webhook"):
        add_controller(without_manager(Idle))


def test_versions_that_nobody_converts_are_refused():
    class Lossy(Operator[Gadget]):
        """Its second version would lose what the first one does not have."""

        versions = (OldGadget,)

        async def reconcile(self, gadget: Gadget, ctx: Context) -> None: ...

    class Half(Lossy):
        @webhook.to_hub(OldGadget)
        async def from_old(self, gadget: JsonObject) -> None: ...

    with pytest.raises(RegistrationError, match=r"^Lossy has versions, and no method that converts them: "):
        list(registrations(Lossy))
    [conversion] = registrations(Half)
    with pytest.raises(RegistrationError, match=r"has no from_hub function for "):
        conversion.check()  # type: ignore[union-attr]
