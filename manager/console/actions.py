"""Actions of people: reconcile an object now, pause or resume it or its controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import lru_cache

from manager.api import ObjectKey
from manager.cache import CacheEvent
from manager.console.serialize import cached_record
from manager.console.shard_holders import ShardHolders
from manager.console.templates import object_address
from manager.console.web import Response, answer, plain, who_asks
from manager.controller import Controller
from manager.controller.queue import WorkQueue
from manager.events import ObjectReference
from manager.process.manager import Manager
from manager.telemetry.logs import get_logger
from manager.util.rate_limit import Lines

_SEE_OTHER, _NOT_FOUND, _CONFLICT = 303, 404, 409

_ACTIONS = {
    "reconcile": ("ReconcileRequested", "asked for a reconcile"),
    "pause": ("Paused", "paused it"),
    "resume": ("Resumed", "resumed it"),
}
"""By name, the reason of their Event, and what it says."""

_NO_NAME = "somebody on this machine"
_LINES_A_MINUTE, _USERS = 10, 64
"""Log lines about one user's actions, and the users that are told apart."""

_log = get_logger("console")


class Actions:
    """The actions of the console."""

    def __init__(self, manager: Manager, holders: ShardHolders | None) -> None:
        """`holders` is there where replicas share the work."""
        self._manager = manager
        self._holders = holders
        self._paused: dict[tuple[str, ObjectKey], Callable[[], None]] = {}
        self._lines = lru_cache(_USERS)(lambda _user: Lines(per_minute=_LINES_A_MINUTE))

    def act(
        self, action: str, resource: str, key: ObjectKey | None, controllers: Sequence[Controller]
    ) -> Response:
        """Do it with an object, or with all controllers of the kind if there is no `key`."""
        if not controllers or action not in _ACTIONS or (key is None and action == "reconcile"):
            return plain("there is no such action\n", _NOT_FOUND)
        if key is not None:
            cached = [cached_record(self._manager, each.primary, key) for each in controllers]
            if not all(
                map(self.is_ours, controllers, [None if each is None else each.uid for each in cached])
            ):
                text = "this replica does not work on the object: ask the replica that does\n"
                return plain(text, _CONFLICT)
            if not any(cached):
                return plain("there is no such object\n", _NOT_FOUND)
        user, (reason, did) = who_asks(), _ACTIONS[action]
        by = _NO_NAME if user is None else user.name
        for controller in controllers:
            queue = controller.queue
            if queue is None or queue.is_shut_down:
                return plain(f"the controller {controller.name} does not run in this replica\n", _CONFLICT)
            if key is None:
                queue.paused = action == "pause"
            elif action == "reconcile":
                controller.ask(key, by)
            elif action == "pause":
                self._pause(controller, queue, key)
            else:
                self._resume(controller, queue, key)
            about = {"action": action, "controller": controller.name, "object": str(key), "by": by}
            sharer = "" if user is None else user.sharer
            self._lines(sharer).log(_log.info, "asked for in the console", **about)
            text = f"{by} {did} in the console of {controller.name}"
            self._manager.events.event(self._reference(controller, resource, key), "Normal", reason, text)
        return answer(_SEE_OTHER, {"Location": "/" if key is None else object_address(key, resource)})

    def is_ours(self, controller: Controller, uid: str | None) -> bool:
        """Return whether this replica works on an object; None is a UID that it does not know."""
        return self._holders is None or self._holders.is_ours(controller.name, uid)

    def _pause(self, controller: Controller, queue: WorkQueue[ObjectKey], key: ObjectKey) -> None:
        """Pause an object until it is resumed or deleted: a later one of its name is not paused."""

        def hear(event: CacheEvent) -> None:
            if event.key == key and event.new is None:
                self._resume(controller, queue, key)

        if not queue.is_paused(key):
            queue.pause(key)
            left = ExitStack()
            for each in self._manager.cache.informers:
                if each.spec.gvk == controller.primary:
                    left.callback(each.subscribe(hear, replay=False))
            self._paused[controller.name, key] = left.close

    def _resume(self, controller: Controller, queue: WorkQueue[ObjectKey], key: ObjectKey) -> None:
        queue.resume(key)
        if (leave := self._paused.pop((controller.name, key), None)) is not None:
            leave()

    def _reference(self, controller: Controller, resource: str, key: ObjectKey | None) -> ObjectReference:
        """Refer to the object, or to the definition of the kind."""
        gvk = controller.primary
        if key is None or gvk is None:
            version, kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
            return ObjectReference(version, kind, namespace="", name=resource)
        cached = cached_record(self._manager, gvk, key)
        uid = "" if cached is None else cached.uid
        return ObjectReference(gvk.api_version, gvk.kind, key.namespace, key.name, uid)
