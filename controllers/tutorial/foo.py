"""Foo: happy while a pod of its friend's name exists, in whichever namespace."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from apis.tutorial.v1.foo import Foo
from controllers.conditions import condition
from controllers.tutorial.colour import colour_of
from manager import clock
from manager.api import Condition, ObjectKey, set_condition
from manager.api.core_v1 import Pod
from manager.cache import CacheEvent, Meta, Record
from manager.client import Client
from manager.controller import (
    ControllerBuilder,
    ControllerOptions,
    Request,
    Result,
    generation_changed,
    presence_changed,
)
from manager.events import EventRecorder
from manager.manager import Manager
from manager.rbac import rbac

__all__ = ["BY_FRIEND", "KINDS", "PRESENT_BY_NAME", "RECONCILERS", "FooReconciler", "setup"]

BY_FRIEND = "friend"
"""Index of Foos by `spec.name`."""

PRESENT_BY_NAME = "present-by-name"
"""Index of pods by name, over all namespaces, without those that are being deleted."""

# What the API server takes for the name of a pod.
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_POD_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")


@rbac(groups="tutorial.my.domain", resources="foos", verbs="list;watch")
@rbac(groups="tutorial.my.domain", resources="foos/status", verbs="patch")
@rbac(groups="", resources="pods", verbs="list;watch")
@rbac(groups="", resources="events", verbs="create;patch")
class FooReconciler:
    """Writes to each Foo whether its friend is around."""

    def __init__(self, client: Client, events: EventRecorder) -> None:
        self.client = client
        self.events = events

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one Foo's status up to date."""
        foo = await self.client.find(Foo, request)
        if foo is None or foo.metadata.deletion_timestamp is not None:
            return None
        friends = await self.client.metadata.keys(Pod, index=(PRESENT_BY_NAME, foo.spec.name))
        was_happy, status = foo.status.happy, foo.status
        status.happy = bool(friends)
        status.colour = colour_of(foo.metadata.name + foo.metadata.namespace)
        status.observed_generation = foo.metadata.generation
        set_condition(status.conditions, happiness(foo, happy=status.happy), now=clock.now())
        await self.client.status.report(foo)
        # Only what is written is told: a write that fails is tried again, and so is what follows it.
        self.announce(foo, friends, was_happy=was_happy)
        return None

    def announce(self, foo: Foo, friends: list[ObjectKey], *, was_happy: bool | None) -> None:
        """Tell a person that a Foo became happy or unhappy, or what a new one waits for."""
        name = foo.spec.name
        if friends and not was_happy:
            message = f"Pod {name} is there, in namespace {friends[0].namespace}"
            self.events.event(foo, "Normal", "BecameHappy", message)
        elif not friends and was_happy:
            self.events.event(foo, "Normal", "BecameUnhappy", f"No pod named {name} is there")
        elif not friends and was_happy is None:
            self.events.event(foo, "Normal", "Waiting", f"Waits for a pod named {name}")


def happiness(foo: Foo, *, happy: bool) -> Condition:
    """The condition Happy, and why it is as it is."""
    name = foo.spec.name
    if happy:
        return condition(foo, "Happy", "True", "FriendFound", f"There is a pod named {name}")
    if _POD_NAME.fullmatch(name):
        return condition(foo, "Happy", "False", "FriendMissing", f"There is no pod named {name}")
    return condition(foo, "Happy", "False", "NameImpossible", "spec.name is a name that no pod can have")


class _Spec(msgspec.Struct):
    name: str


class _Friend(msgspec.Struct):
    """Of a Foo's JSON only what the index needs, for it is decoded at each of its changes."""

    spec: _Spec


_decode_friend = msgspec.json.Decoder(_Friend).decode


def friend_of(foo: Record, _: Meta) -> Iterable[str]:
    """The name that a Foo is found by."""
    try:
        return (_decode_friend(foo.raw).spec.name,)
    except msgspec.DecodeError:
        return ()  # stored under another schema; reconciling it says what is wrong


def name_if_present(pod: Record, _: Meta) -> Iterable[str]:
    """The name that a pod is found by, unless it is being deleted."""
    return () if pod.deleting else (pod.key.name,)


def setup(manager: Manager, options: ControllerOptions) -> None:
    """Wire the controller up."""
    foos = manager.cache.informer(Foo)
    foos.add_index(BY_FRIEND, friend_of)
    manager.cache.informer(Pod, metadata_only=True).add_index(PRESENT_BY_NAME, name_if_present)

    def waiting_for(pod: CacheEvent) -> Iterable[Request]:
        """The Foos whose friend the pod is: one look into the index, however many Foos there are."""
        return [foo.key for foo in foos.list(index=(BY_FRIEND, pod.key.name))]

    (
        ControllerBuilder(manager, Foo)
        .predicates(generation_changed)
        .watches(Pod, handler=waiting_for, predicates=[presence_changed], metadata_only=True)
        .options(options)
        .complete(FooReconciler(manager.client.named("foo"), manager.events))
    )


KINDS = (Foo,)
RECONCILERS = (FooReconciler,)
