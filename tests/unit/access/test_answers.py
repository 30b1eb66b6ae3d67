from __future__ import annotations

import asyncio

import pytest

from manager.access.answers import Answers

pytestmark = pytest.mark.virtual_time


class Oracle:
    """Answers after a second, and counts how often it is asked."""

    def __init__(self, answer: str | Exception = "yes") -> None:
        self.answer = answer
        self.asked = 0
        self.given_up = 0

    async def __call__(self) -> str:
        self.asked += 1
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def answers(limit: int = 10) -> Answers[str, str]:
    return Answers(limit=limit, keep_yes=60, keep_no=10)


@pytest.mark.parametrize(("answer", "seconds"), [("yes", 60), ("", 10)])
async def test_an_answer_is_remembered_for_its_time(answer: str, seconds: float):
    oracle, remembered = Oracle(answer), answers()
    assert await remembered.get("q", oracle) == answer
    await asyncio.sleep(seconds - 0.1)
    assert await remembered.get("q", oracle) == answer
    assert oracle.asked == 1
    await asyncio.sleep(0.2)
    assert await remembered.get("q", oracle) == answer
    assert oracle.asked == 2


async def test_using_an_answer_does_not_make_it_last_longer():
    oracle, remembered = Oracle(), answers()
    for _ in range(7):
        await remembered.get("q", oracle)
        await asyncio.sleep(10)
    assert oracle.asked == 2


async def test_who_asks_the_same_at_once_shares_the_search():
    oracle, remembered = Oracle(), answers()
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(remembered.get("q", oracle)) for _ in range(20)]
    assert {task.result() for task in asking} == {"yes"}
    assert oracle.asked == 1


async def test_different_questions_are_searched_for_side_by_side():
    oracle, remembered = Oracle(), answers()
    async with asyncio.TaskGroup() as group:
        for question in "abc":
            group.create_task(remembered.get(question, oracle))
    assert oracle.asked == 3
    assert asyncio.get_running_loop().time() == pytest.approx(1)


async def test_a_failure_is_for_all_who_waited_and_is_not_remembered():
    oracle, remembered = Oracle(ValueError("no")), answers()
    asked = [asyncio.create_task(remembered.get("q", oracle)) for _ in range(3)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results] == [ValueError] * 3
    oracle.answer = "yes"
    assert await remembered.get("q", oracle) == "yes"
    assert oracle.asked == 2


async def test_who_leaves_takes_nothing_from_those_who_stay():
    oracle, remembered = Oracle(), answers()
    leaving, staying = (asyncio.create_task(remembered.get("q", oracle)) for _ in range(2))
    await asyncio.sleep(0.5)
    leaving.cancel()
    assert await staying == "yes"
    assert leaving.cancelled()
    assert (oracle.asked, oracle.given_up) == (1, 0)


async def test_the_search_ends_with_the_last_who_waited():
    oracle, remembered = Oracle(), answers()
    asking = [asyncio.create_task(remembered.get("q", oracle)) for _ in range(2)]
    await asyncio.sleep(0.5)
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)
    assert oracle.given_up == 1
    assert len(asyncio.all_tasks()) == 1


async def test_who_comes_when_the_last_one_leaves_begins_anew():
    oracle, remembered = Oracle(), answers()
    leaving = asyncio.create_task(remembered.get("q", oracle))
    await asyncio.sleep(0.5)
    leaving.cancel()
    await asyncio.sleep(0)
    assert await remembered.get("q", oracle) == "yes"
    assert oracle.asked == 2


async def test_a_search_given_up_before_it_began_is_in_nobodys_way():
    oracle, remembered = Oracle(), answers()
    leaving = asyncio.create_task(remembered.get("q", oracle))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await remembered.get("q", oracle) == "yes"


async def test_no_more_is_remembered_than_the_limit_and_the_least_used_goes():
    oracle, remembered = Oracle(), answers(limit=2)
    await remembered.get("a", oracle)
    await remembered.get("b", oracle)
    await remembered.get("a", oracle)
    await remembered.get("c", oracle)
    assert len(remembered) == 2
    await remembered.get("a", oracle)
    assert oracle.asked == 3
    await remembered.get("b", oracle)
    assert oracle.asked == 4


async def test_no_number_of_refusals_pushes_out_what_was_accepted():
    oracle, refusing, remembered = Oracle(), Oracle(""), answers(limit=2)
    await remembered.get("good", oracle)
    await asyncio.gather(*(remembered.get(f"junk {number}", refusing) for number in range(5)))
    assert len(remembered) == 3
    await remembered.get("good", oracle)
    assert oracle.asked == 1


async def test_what_was_once_accepted_is_known_until_it_is_refused():
    oracle, remembered = Oracle(), answers()
    assert not remembered.was_yes("q")
    await remembered.get("q", oracle)
    await asyncio.sleep(1000)
    assert remembered.was_yes("q")
    oracle.answer = ""
    assert await remembered.get("q", oracle) == ""
    assert not remembered.was_yes("q")
