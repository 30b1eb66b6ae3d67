"""Foo operator: a Foo is happy while the pod that it names as its friend exists, in any namespace."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import ClassVar, get_args

from apis.tutorial.v1.foo import HAPPY, Colour, Foo
from manager import (
    Context,
    Informer,
    Meta,
    ObjectKey,
    Operator,
    Watch,
    any_of,
    generation_changed,
    presence_changed,
    status_changed,
)
from manager.cache import Record, index_by
from manager_kinds.core_v1 import Pod

BY_FRIEND = "friend"
"""The name of the index of Foos by `spec.name`."""

PRESENT_BY_NAME = "present-by-name"
"""The name of the index of pods by name, over all namespaces, without pods that are being deleted."""

# The API server's pattern for the name of a pod.
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_POD_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")

_IMPOSSIBLE = "spec.name is a name that no pod can have"

_COLOURS: tuple[Colour, ...] = get_args(Colour)


def name_if_present(pod: Record, _: Meta) -> Iterable[str]:
    """Return the pod's name, unless the pod is being deleted."""
    return () if pod.deleting else (pod.key.name,)


def waiting_for(pod: Meta, foos: Informer) -> Iterable[ObjectKey]:
    """Return the Foos that name the pod as their friend, by one index look-up."""
    return [foo.key for foo in foos.list(index=(BY_FRIEND, pod.name))]


class FooOperator(Operator[Foo]):
    """The operator that reports in a Foo's status whether the pod that the Foo names as its friend exists."""

    on = any_of(generation_changed, status_changed)
    indexes: ClassVar = {BY_FRIEND: index_by("spec.name")}
    watches = (
        Watch(
            Pod,
            enqueue=waiting_for,
            on=presence_changed,
            metadata_only=True,
            indexes={PRESENT_BY_NAME: name_if_present},
        ),
    )

    async def reconcile(self, foo: Foo, ctx: Context) -> None:
        """Reconcile one Foo."""
        name, was_happy = foo.spec.name, foo.status.happy
        friends = await ctx.client.metadata.keys(Pod, index=(PRESENT_BY_NAME, name))
        foo.status.happy = bool(friends)
        foo.status.colour = colour_of(foo.metadata.name + foo.metadata.namespace)
        if friends:
            ctx.condition(HAPPY, True, "FriendFound", f"There is a pod named {name}")
        elif _POD_NAME.fullmatch(name):
            ctx.condition(HAPPY, False, "FriendMissing", f"There is no pod named {name}")
            ctx.awaits(f"a pod named {name} is created")
        else:
            ctx.condition(HAPPY, False, "NameImpossible", _IMPOSSIBLE)

        if friends and not was_happy:
            where = f"Pod {name} is there, in namespace {friends[0].namespace}"
            ctx.event("BecameHappy", where, once_written=True)
        elif not friends and was_happy:
            ctx.event("BecameUnhappy", f"No pod named {name} is there", once_written=True)
        elif not friends and was_happy is None and _POD_NAME.fullmatch(name):
            ctx.event("Waiting", f"Waits for a pod named {name}", once_written=True)
        elif not friends and was_happy is None:
            ctx.event("NameImpossible", _IMPOSSIBLE, once_written=True)


def colour_of(text: str) -> Colour:
    """Return one of the twelve colours, always the same for the same text, and each equally likely."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return _COLOURS[int(digest[:8], 16) % len(_COLOURS)]
