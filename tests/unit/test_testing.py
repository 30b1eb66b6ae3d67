"""`manager.testing`, where a test of an operator waits in vain."""

from __future__ import annotations

import pytest

from manager.api import ObjectMeta
from manager.scaffold.project.apis.hello.v1.greeting import Greeting, GreetingSpec
from manager.testing import operated


async def test_what_is_waited_for_in_vain_is_shown_as_it_was_at_last_without_who_wrote_which_field():
    async with operated(kinds=(Greeting,)) as world:
        greeting = await world.create(Greeting(metadata=ObjectMeta(name="a"), spec=GreetingSpec(size=7)))
        with pytest.raises(AssertionError, match="not so after 0 s; at last:") as waited:
            await world.until(greeting, lambda it: it.status.size == 7, timeout=0)
    assert '"size": 7' in str(waited.value)
    assert "managedFields" not in str(waited.value)
