"""`manager.testing`, where a test of an operator waits."""

from __future__ import annotations

import asyncio

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


@pytest.mark.virtual_time
async def test_an_object_is_read_again_when_something_was_written_and_looked_at_all_the_time():
    async with operated(kinds=(Greeting,)) as world:
        greeting = await world.create(Greeting(metadata=ObjectMeta(name="a"), spec=GreetingSpec(size=7)))
        seen: list[Greeting] = []

        def holds(found: Greeting) -> bool:
            seen.append(found)
            return found.spec.size == 8 and asyncio.get_running_loop().time() > began + 5

        began = asyncio.get_running_loop().time()
        waiting = asyncio.create_task(world.until(greeting, holds))
        await asyncio.sleep(2)
        await world.update(greeting, lambda it: setattr(it.spec, "size", 8))
        assert (await waiting).spec.size == 8
    assert len(seen) > 900
    assert 2 <= len(set(map(id, seen))) < 10
