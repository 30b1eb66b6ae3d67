from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from apis.tutorial.v1.foo import Foo
from controllers.cache.memcached import CR_LABEL
from controllers.tutorial.foo import BY_FRIEND, PRESENT_BY_NAME, colour_of
from manager.api import ObjectKey
from manager.api.core_v1 import Pod
from manager.cache import Record
from manager.cache.index import KeyGroups
from tests.support.scripted_wire import Reply
from tests.unit.conftest import LogLines
from tests.unit.controllers.operator_world import OperatorWorld

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("log_lines")]

NOW = "2026-11-21T10:00:00Z"


class FooWorld(OperatorWorld):
    """The Foo operator, alone."""

    def __init__(self) -> None:
        super().__init__("foo")
        self.foos, self.pods = self.kind(Foo), self.kind(Pod, metadata_only=True)

    def listed(self, **friends: str) -> None:
        """There are these Foos, by name, with these friends, and no pods."""
        self.foos.listed(*(self.foos.obj(name, spec={"name": friend}) for name, friend in friends.items()))
        self.pods.listed()

    def happy(self, name: str = "foo-01") -> Any:
        return self.foos.status(name)["happy"]

    def reason(self, name: str = "foo-01") -> str:
        [condition] = self.foos.status(name)["conditions"]
        assert condition["type"] == "Happy"
        assert condition["status"] == str(self.happy(name))
        return str(condition["reason"])

    async def cost(self, *, of: Any) -> tuple[int, int]:
        """What something costs: how many reconciles, and how many writes."""
        reconciles, writes = self.reconciles("foo"), len(self.writes())
        of()
        await self.quiet()
        return self.reconciles("foo") - reconciles, len(self.writes()) - writes


ONE_AND_A_WRITE, ONE_IN_VAIN, NONE = (1, 1), (1, 0), (0, 0)


@pytest.fixture
async def world() -> FooWorld:
    return FooWorld()


async def test_the_worked_example(world: FooWorld):
    world.listed(**{"foo-01": "jack", "foo-02": "joe"})
    async with world.running():
        assert [world.happy("foo-01"), world.happy("foo-02")] == [False, False]
        world.pods.put("jack")
        await world.quiet()
        assert [world.happy("foo-01"), world.happy("foo-02")] == [True, False]
        world.foos.put("foo-02", spec={"name": "jack"})
        await world.quiet()
        assert [world.happy("foo-01"), world.happy("foo-02")] == [True, True]
        world.pods.gone("jack")
        await world.quiet()
        assert [world.happy("foo-01"), world.happy("foo-02")] == [False, False]
    assert world.events.reasons("foo-01") == ["Waiting", "BecameHappy", "BecameUnhappy"]
    assert world.events.reasons("foo-02") == ["Waiting", "BecameHappy", "BecameUnhappy"]


async def test_each_event_causes_one_reconcile_and_a_write_of_its_own_none(world: FooWorld):
    world.listed(**{"foo-01": "jack", "foo-02": "joe"})
    foos, pods = world.foos, world.pods
    async with world.running():
        assert world.reconciles("foo") == 2
        assert len(world.writes()) == 2
        assert await world.cost(of=lambda: pods.put("jack")) == ONE_AND_A_WRITE
        assert await world.cost(of=lambda: foos.put("foo-02", spec={"name": "jack"})) == ONE_AND_A_WRITE
        assert await world.cost(of=lambda: foos.put("foo-02", spec={"name": "joe"})) == ONE_AND_A_WRITE
        assert await world.cost(of=lambda: pods.put("jack", deletionTimestamp=NOW)) == ONE_AND_A_WRITE
        assert await world.cost(of=lambda: pods.gone("jack")) == NONE
        assert await world.cost(of=lambda: foos.gone("foo-02")) == ONE_IN_VAIN


async def test_what_does_not_matter_causes_no_reconcile(world: FooWorld):
    world.listed(**{"foo-01": "jack"})
    foos, pods = world.foos, world.pods
    async with world.running():
        pods.put("jack")
        await world.quiet()
        for change in (
            lambda: pods.put("jack", labels={"a": "b"}),
            lambda: pods.put("jack", generation=2),
            lambda: pods.put("stranger"),
            lambda: pods.put("stranger", deletionTimestamp=NOW),
            lambda: pods.gone("stranger"),
            lambda: foos.put("foo-01", labels={"a": "b"}),
            lambda: foos.put("foo-01", finalizers=["example.com/wait"]),
        ):
            assert await world.cost(of=change) == NONE


async def test_any_namespace_will_do_and_one_pod_is_enough(world: FooWorld):
    world.listed(**{"foo-01": "jack"})
    async with world.running():
        world.pods.put("jack", "here")
        await world.quiet()
        assert world.happy() is True
        assert await world.cost(of=lambda: world.pods.put("jack", "there")) == ONE_IN_VAIN
        assert await world.cost(of=lambda: world.pods.gone("jack", "here")) == ONE_IN_VAIN
        assert world.happy() is True
        world.pods.gone("jack", "there")
        await world.quiet()
        assert world.happy() is False
    assert ("foo-01", "Normal", "BecameHappy", "Pod jack is there, in namespace here") in world.events.told


async def test_a_pod_that_is_being_deleted_is_no_friend(world: FooWorld):
    world.foos.listed(world.foos.obj("foo-01", spec={"name": "jack"}))
    world.pods.listed(world.pods.obj("jack", deletionTimestamp=NOW))
    async with world.running():
        assert world.happy() is False
        world.pods.gone("jack")
        world.pods.put("jack", uid="jack-2")
        await world.quiet()
        assert world.happy() is True


async def test_a_pod_that_is_replaced_unseen_leaves_it_happy_at_one_reconcile(world: FooWorld):
    world.listed(**{"foo-01": "jack"})
    async with world.running():
        world.pods.put("jack")
        await world.quiet()
        assert await world.cost(of=lambda: world.pods.put("jack", uid="jack-2")) == ONE_IN_VAIN
        assert world.happy() is True


async def test_who_changes_friends_hears_of_the_new_one_only(world: FooWorld):
    world.listed(**{"foo-01": "jack"})
    async with world.running():
        world.foos.put("foo-01", spec={"name": "joe"})
        await world.quiet()
        assert await world.cost(of=lambda: world.pods.put("jack")) == NONE
        assert await world.cost(of=lambda: world.pods.put("joe")) == ONE_AND_A_WRITE


async def test_the_status_says_everything(world: FooWorld):
    world.listed(**{"foo-01": "jack"})
    async with world.running():
        world.foos.put("foo-01", spec={"name": "joe"})
        await world.quiet()
    status = world.foos.status("foo-01")
    [condition] = status.pop("conditions")
    assert status == {"happy": False, "colour": "yellow", "observedGeneration": 2}
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "Happy",
        "status": "False",
        "reason": "FriendMissing",
        "message": "There is no pod named joe",
        "observedGeneration": 2,
    }


async def test_nothing_is_written_before_the_pods_are_known(world: FooWorld):
    world.foos.listed(world.foos.obj("foo-01", spec={"name": "jack"}))
    async with world.running():
        assert (world.reconciles("foo"), world.writes()) == (0, [])
        world.pods.listed(world.pods.obj("jack"))
        await world.quiet()
        assert world.happy() is True
    assert world.events.reasons("foo-01") == ["BecameHappy"]


async def test_a_write_that_fails_is_tried_again_and_told_once(world: FooWorld):
    world.listed(**{"foo-01": "jack"})
    async with world.running():
        world.wire.on("PATCH", world.foos.path, Reply.status(500, "InternalError"), world.foos.take_status)
        world.pods.put("jack")
        await world.quiet()
        assert world.happy() is False
        assert world.events.reasons("foo-01") == ["Waiting"]
        await asyncio.sleep(60)
        assert world.happy() is True
    assert world.events.reasons("foo-01") == ["Waiting", "BecameHappy"]


async def test_one_that_is_being_deleted_is_left_alone(world: FooWorld):
    world.foos.listed(
        world.foos.obj("foo-01", spec={"name": "jack"}, deletionTimestamp=NOW, finalizers=["x/y"])
    )
    world.pods.listed(world.pods.obj("jack"))
    async with world.running():
        assert world.writes() == []


async def test_after_a_restart_nothing_is_written_and_nothing_told(world: FooWorld):
    world.listed(**{"foo-01": "jack", "foo-02": "joe"})
    world.pods.put("jack")
    async with world.running():
        pass
    later = FooWorld()
    later.foos.listed(*world.foos.stored())
    later.pods.listed(*world.pods.stored())
    async with later.running():
        assert later.reconciles("foo") == 2
    assert (later.events.told, later.writes()) == ([], [])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("jack", "FriendMissing"),
        ("web-0.example.com", "FriendMissing"),
        ("a" * 253, "FriendMissing"),
        ("Jack", "NameImpossible"),
        ("jack\n", "NameImpossible"),
        ("-jack", "NameImpossible"),
        ("jack..joe", "NameImpossible"),
        ("ja/ck", "NameImpossible"),
        ("\N{SNOWMAN}" * 253, "NameImpossible"),
        ("\N{GRINNING FACE}\0'\";${jack}", "NameImpossible"),
    ],
)
async def test_a_name_that_no_pod_can_have_is_a_name_that_is_waited_for_in_vain(
    world: FooWorld, name: str, reason: str
):
    world.listed(**{"foo-01": name})
    async with world.running():
        assert world.happy() is False
        assert world.reason() == reason


async def test_a_colour_that_another_schema_let_in_is_put_right(world: FooWorld):
    old = world.foos.obj("foo-01", spec={"name": "jack"})
    world.foos.listed({**old, "status": {"happy": False, "colour": "pink", "favourite": "joe"}})
    world.pods.listed()
    async with world.running():
        status = world.foos.status("foo-01")
        assert (status["colour"], status["favourite"]) == ("yellow", "joe")


@pytest.mark.parametrize("spec", [{"name": 5}, {"name": None}, {}, "jack", None, ["name"]])
async def test_one_that_another_schema_let_in_keeps_nobody_else_waiting(
    world: FooWorld, spec: Any, log_lines: LogLines
):
    broken = world.foos.obj("broken", spec=spec)
    world.foos.listed(broken, world.foos.obj("foo-01", spec={"name": "jack"}))
    world.pods.listed()
    async with world.running():
        world.pods.put("jack")
        world.pods.put("5")
        await world.quiet()
        assert world.happy() is True
    [complaint] = [line for line in log_lines if line["log_level"] == "error"]
    assert (complaint["name"], complaint["event"]) == ("broken", "reconcile failed")
    assert complaint["error"].startswith("Foo default/broken: spec")
    assert "exc_info" not in complaint


def calls_of(action: Any) -> int:
    """How many functions, of Python's and of C's, are called in the course of it."""
    count = 0

    def see(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


class Counted:
    """Counts how often each of some methods is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *methods: tuple[type, str]) -> None:
        self.counts = {name: 0 for _, name in methods}
        for owner, name in methods:
            monkeypatch.setattr(owner, name, self._counting(name, getattr(owner, name)))

    def _counting(self, name: str, original: Any) -> Any:
        def method(*args: Any, **kwargs: Any) -> Any:
            self.counts[name] += 1
            return original(*args, **kwargs)

        return method


def settled_foo(world: FooWorld, number: int) -> dict[str, Any]:
    """A Foo without a friend, as the operator has left it: to say so again takes no write."""
    name, friend = f"foo-{number:05d}", f"friend-{number:05d}"
    condition = {
        "type": "Happy",
        "status": "False",
        "reason": "FriendMissing",
        "message": f"There is no pod named {friend}",
        "observedGeneration": 1,
        "lastTransitionTime": NOW,
    }
    colour = colour_of(f"{name}default")
    status = {"happy": False, "colour": colour, "observedGeneration": 1, "conditions": [condition]}
    return {**world.foos.obj(name, spec={"name": friend}), "status": status}


async def cost_of_pod_events(count: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the events of a pod cost that one of so many Foos waits for, and of one that nobody waits for."""
    world = FooWorld()
    world.foos.listed(*(settled_foo(world, number) for number in range(count)))
    world.pods.listed()
    async with world.running():
        assert (world.reconciles("foo"), world.writes()) == (count, [])
        costs = []
        for name in ("friend-00003", "stranger"):
            for event in (
                lambda name=name: world.pods.put(name),
                lambda name=name: world.pods.put(name, labels={"a": "b"}),
                lambda name=name: world.pods.put(name, deletionTimestamp=NOW),
                lambda name=name: world.pods.gone(name),
            ):
                with monkeypatch.context() as patched:
                    counted = Counted(patched, (KeyGroups, "keys"), (Record, "meta"), (Foo, "decode"))
                    reconciles, writes = await world.cost(of=event)
                costs.append((reconciles, writes, counted.counts))
        costs.append(calls_of(lambda: world.pods.put("friend-00005")))
        costs.append(calls_of(lambda: world.pods.put("another")))
    return costs


async def test_a_pod_event_costs_the_same_whatever_the_number_of_foos(monkeypatch: pytest.MonkeyPatch):
    few = await cost_of_pod_events(10, monkeypatch)
    many = await cost_of_pod_events(1_000, monkeypatch)
    assert many == few
    found, unknown = few[:4], few[4:8]
    assert [(reconciles, writes) for reconciles, writes, _ in found] == [(1, 1), (0, 0), (1, 1), (0, 0)]
    assert [(reconciles, writes) for reconciles, writes, _ in unknown] == [(0, 0)] * 4
    # One look-up to find the Foos, of the pod as it was and as it is; where there is one, another to find its
    # friends.
    assert [counts["keys"] for _, _, counts in found] == [2, 0, 3, 0]
    assert [counts["keys"] for _, _, counts in unknown] == [1, 0, 2, 0]
    assert [counts["decode"] for _, _, counts in unknown] == [0, 0, 0, 0]


async def test_a_foo_that_is_indexed_is_not_decoded_whole(world: FooWorld, monkeypatch: pytest.MonkeyPatch):
    world.listed(**{"foo-01": "jack"})
    async with world.running():
        with monkeypatch.context() as patched:
            counted = Counted(patched, (Foo, "decode"))
            assert await world.cost(of=lambda: world.foos.put("foo-01", labels={"a": "b"})) == NONE
            assert counted.counts == {"decode": 0}
            assert (
                await world.cost(of=lambda: world.foos.put("foo-01", spec={"name": "joe"})) == ONE_AND_A_WRITE
            )
            assert counted.counts == {"decode": 1}  # what is read; nobody looks at the answer to the write


async def test_the_index_of_pods_and_another_operators_way_to_find_them_live_in_one_cache():
    world = OperatorWorld("memcached", "foo")
    pods = world.kind(Pod, metadata_only=True)
    pods.listed(pods.obj("jack", labels={CR_LABEL: "mc"}), pods.obj("joe", deletionTimestamp=NOW))

    def by_label() -> list[ObjectKey]:
        return [each.key for each in pods.informer.list(labels={CR_LABEL: "mc"})]

    def by_name(name: str) -> list[ObjectKey]:
        return [each.key for each in pods.informer.list(index=(PRESENT_BY_NAME, name))]

    jack = ObjectKey("default", "jack")
    assert (by_label(), by_name("jack"), by_name("joe")) == ([jack], [jack], [])
    pods.put("jack", labels={})
    assert (by_label(), by_name("jack")) == ([], [jack])
    pods.gone("jack")
    assert (by_label(), by_name("jack")) == ([], [])
    watched = [(each.spec.resource, each.spec.projection) for each in world.manager.cache.informers]
    assert sorted(watched) == [
        ("deployments.apps", "full"),
        ("foos.tutorial.my.domain", "full"),
        ("memcacheds.cache.example.com", "full"),
        ("pods", "metadata"),
    ]


async def test_foos_are_found_by_their_friend_as_it_is_now(world: FooWorld):
    world.listed(**{"foo-01": "jack", "foo-02": "jack"})
    informer = world.foos.informer
    assert [each.key.name for each in informer.list(index=(BY_FRIEND, "jack"))] == ["foo-01", "foo-02"]
    world.foos.put("foo-02", spec={"name": "joe"})
    assert [each.key.name for each in informer.list(index=(BY_FRIEND, "jack"))] == ["foo-01"]
    assert [each.key.name for each in informer.list(index=(BY_FRIEND, "joe"))] == ["foo-02"]
    world.foos.gone("foo-02")
    assert informer.list(index=(BY_FRIEND, "joe")) == []
