from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from apis.tutorial.v1.foo import Foo
from controllers.tutorial.foo import FooOperator, colour_of
from manager.cache import Record
from tests.unit.controllers.seen import Seen, seen

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("log_lines")]

ONE_AND_A_WRITE, ONE_IN_VAIN, NONE = (1, 1), (1, 0), (0, 0)
HELD = ["example.com/hold"]


@pytest.fixture
async def foos() -> AsyncIterator[Seen]:
    async with seen(FooOperator) as found:
        await found.api.create("namespaces", "", {"metadata": {"name": "there"}})
        await asyncio.sleep(1)
        yield found


async def create(foos: Seen, **friends: str) -> None:
    """Create Foos with the given names and friends; an underscore stands for a hyphen."""
    for name, friend in friends.items():
        await foos.create(name.replace("_", "-"), {"name": friend})
    await asyncio.sleep(1)


def pod(foos: Seen, name: str, namespace: str = "default", **metadata: Any) -> Awaitable[object]:
    spec = {"containers": [{"name": "main", "image": "image"}]}
    return foos.api.create("pods", namespace, {"metadata": {"name": name, **metadata}, "spec": spec})


def change(foos: Seen, name: str, **changes: Any) -> Awaitable[object]:
    return foos.api.patch("pods", "default", name, {"metadata": changes})


def delete(foos: Seen, name: str, namespace: str = "default") -> Awaitable[object]:
    return foos.api.delete("pods", namespace, name)


def happy(foos: Seen, *names: str) -> list[Any]:
    return [foos.status(name)["happy"] for name in names or ("foo-01",)]


async def test_foo_status_is_happy_while_the_pod_named_in_its_spec_exists(foos: Seen):
    await create(foos, foo_01="jack", foo_02="joe")
    assert happy(foos, "foo-01", "foo-02") == [False, False]
    assert await foos.cost(pod(foos, "jack")) == ONE_AND_A_WRITE
    assert happy(foos, "foo-01", "foo-02") == [True, False]
    assert await foos.cost(foos.patch("foo-02", spec={"name": "jack"})) == ONE_AND_A_WRITE
    assert happy(foos, "foo-01", "foo-02") == [True, True]
    # One event reconciles both Foos; the end of the pod a moment later causes no reconcile.
    assert await foos.cost(delete(foos, "jack")) == (2, 2)
    assert happy(foos, "foo-01", "foo-02") == [False, False]
    assert await foos.cost(foos.patch("foo-02", spec={"name": "jim"})) == ONE_AND_A_WRITE
    status = foos.status("foo-02")
    [condition] = status.pop("conditions")
    assert status == {"happy": False, "colour": "blue-green", "observedGeneration": 3}
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "Happy",
        "status": "False",
        "reason": "FriendMissing",
        "message": "There is no pod named jim",
        "observedGeneration": 3,
    }
    for name in ("foo-01", "foo-02"):
        assert await foos.events_of(name) == [("Waiting", 1), ("BecameHappy", 1), ("BecameUnhappy", 1)]


async def test_foo_ignores_unrelated_pods_and_label_changes_of_its_pod_and_metadata_changes_of_itself(
    foos: Seen,
):
    await create(foos, foo_01="jack")
    await foos.cost(pod(foos, "jack"))
    for changes in (
        [change(foos, "jack", labels={"a": "b"})],
        [pod(foos, "stranger")],
        [delete(foos, "stranger")],
        [foos.patch("foo-01", metadata={"labels": {"a": "b"}, "finalizers": HELD})],
    ):
        assert await foos.cost(*changes) == NONE
    # A pod that is no longer a friend causes no reconcile.
    await foos.patch("foo-01", spec={"name": "joe"})
    assert await foos.cost(delete(foos, "jack")) == ONE_AND_A_WRITE
    assert await foos.cost(pod(foos, "jack")) == NONE
    assert await foos.cost(pod(foos, "joe")) == ONE_AND_A_WRITE


async def test_foo_operator_decodes_no_unrelated_foo_when_a_pod_event_arrives(
    foos: Seen, monkeypatch: pytest.MonkeyPatch
):
    await create(foos, **{f"foo_{number}": f"friend-{number}" for number in range(50)})
    read: list[str] = []

    def noted(owner: type, name: str) -> Any:
        original = getattr(owner, name)
        return lambda *args, **more: (read.append(name), original(*args, **more))[1]

    for owner, name in ((Foo, "decode"), (Record, "meta")):
        monkeypatch.setattr(owner, name, noted(owner, name))
    assert await foos.cost(pod(foos, "stranger"), delete(foos, "stranger")) == NONE
    assert "decode" not in read
    assert await foos.cost(pod(foos, "friend-3")) == ONE_AND_A_WRITE
    assert len(read) < 25, "fewer reads than Foos"


async def test_foo_is_happy_while_the_pod_named_in_its_spec_exists_in_any_namespace(foos: Seen):
    await create(foos, foo_01="jack")
    assert await foos.cost(pod(foos, "jack")) == ONE_AND_A_WRITE
    assert await foos.cost(pod(foos, "jack", "there")) == ONE_IN_VAIN
    assert await foos.cost(delete(foos, "jack")) == ONE_IN_VAIN
    assert happy(foos) == [True]
    assert ("BecameHappy", 1) in await foos.events_of("foo-01")
    assert await foos.cost(delete(foos, "jack", "there")) == ONE_AND_A_WRITE
    assert happy(foos) == [False]
    # Another client's change of the status is corrected.
    wrong = {"status": {"happy": True}}
    await foos.cost(foos.api.patch(foos.resource, "default", "foo-01", wrong, subresource="status"))
    assert happy(foos) == [False]


async def test_foo_is_not_happy_when_the_pod_named_in_its_spec_is_terminating(foos: Seen):
    await foos.cost(pod(foos, "jack", finalizers=HELD), delete(foos, "jack"))
    await create(foos, foo_01="jack")
    assert happy(foos) == [False]
    await change(foos, "jack", finalizers=None)
    await foos.cost(pod(foos, "jack"))
    assert happy(foos) == [True]


async def test_foo_event_is_sent_once_even_if_the_status_write_fails_at_first(foos: Seen):
    await create(foos, foo_01="jack")
    foos.refusals = 3
    await foos.cost(pod(foos, "jack"))
    assert (foos.refusals, happy(foos)) == (0, [True])
    assert await foos.events_of("foo-01") == [("Waiting", 1), ("BecameHappy", 1)]


async def test_foo_reports_a_name_in_its_spec_that_no_pod_can_have(foos: Seen):
    names = {
        "FriendMissing": ("jack", "web-0.example.com", "a" * 253),
        "NameImpossible": (
            *("Jack", "jack\n", "-jack", "jack..joe", "ja/ck"),
            *("\N{SNOWMAN}" * 253, "\N{GRINNING FACE}\0'\";${jack}"),
        ),
    }
    friends = {f"{reason.lower()}-{at}": name for reason in names for at, name in enumerate(names[reason])}
    await create(foos, **friends)
    for foo in friends:
        [condition] = foos.status(foo)["conditions"]
        assert (condition["status"], condition["reason"].lower()) == ("False", foo.partition("-")[0])
    for reason, event in (("friendmissing", "Waiting"), ("nameimpossible", "NameImpossible")):
        assert await foos.events_of(f"{reason}-0") == [(event, 1)]


@pytest.mark.parametrize(
    ("text", "colour"),
    [("", "red-orange"), ("kubernetes", "red-violet"), ("foo-01default", "yellow"), ("schön", "yellow")],
)
def test_colour_of_returns_the_same_colour_for_a_text_in_every_release(text: str, colour: str):
    assert colour_of(text) == colour
