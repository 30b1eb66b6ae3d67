"""Establisher of CustomResourceDefinitions: it accepts names, sets conditions, and serves resources."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from devcluster.clock import Clock
from devcluster.crd.approval import APPROVED, approval_of, is_protected
from devcluster.crd.definition import CLEANUP_FINALIZER
from devcluster.crd.resources import CallWebhook, resources_of
from devcluster.kinds.conditions import condition_of, is_true, update_condition
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.patch import Write, record_update
from devcluster.schema.node import Schema
from devcluster.storage.records import Change, Key, Object, Stored
from devcluster.storage.store import Store

_PORTION = 200
"""The number of objects that are deleted before other requests run."""
_SINGLE = (("plural", "Plural"), ("singular", "Singular"), ("kind", "Kind"), ("listKind", "ListKind"))
_KINDS = frozenset({"kind", "listKind"})
_ORDER = ("plural", "singular", "shortNames", "kind", "listKind", "categories")


def accept_names(obj: Object, others: Iterable[Object], now: str) -> bool:
    """Set the accepted names and the conditions of `obj`; return False if nothing changes.

    `others` are the other definitions of the same group.
    """
    wanted = {name: value for name, value in obj["spec"]["names"].items() if value}
    status = obj.setdefault("status", {})
    had: Object = {name: value for name, value in (status.get("acceptedNames") or {}).items() if value}
    if had == wanted:
        return False
    before = copy.deepcopy(status)
    resources, kinds = _taken(others)
    conflict = ("", "")
    accepted = dict(had)
    for key, shown in _SINGLE:
        name = wanted.get(key, "")
        if name != had.get(key, "") and name in (kinds if key in _KINDS else resources):
            conflict = (f"{shown}Conflict", f'"{name}" is already in use')
        elif name:
            accepted[key] = name
        if key == "singular":
            conflict = _short_names(wanted, had, accepted, resources) or conflict
    accepted.pop("categories", None)
    if wanted.get("categories"):
        accepted["categories"] = wanted["categories"]
    shown_names = {"plural": "", "kind": ""} | accepted
    status["acceptedNames"] = {key: shown_names[key] for key in _ORDER if key in shown_names}
    reason, message = conflict
    if reason:
        update_condition(obj, "NamesAccepted", "False", reason, message, now)
    else:
        update_condition(obj, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    if not is_true(obj, "Established"):
        if reason:
            update_condition(obj, "Established", "False", "NotAccepted", "not all names are accepted", now)
        else:
            text = "the initial names have been accepted"
            update_condition(obj, "Established", "False", "Installing", text, now)
    return bool(status != before)


def _taken(others: Iterable[Object]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for each in others:
        names = (each.get("status") or {}).get("acceptedNames") or {}
        resources.update(name for name in (names.get("plural"), names.get("singular")) if name)
        resources.update(names.get("shortNames") or ())
        kinds.update(name for name in (names.get("kind"), names.get("listKind")) if name)
    return resources, kinds


def _short_names(wanted: Object, had: Object, accepted: Object, taken: set[str]) -> tuple[str, str] | None:
    asked: Sequence[str] = wanted.get("shortNames") or ()
    own = had.get("shortNames") or ()
    refused = [f'"{name}" is already in use' for name in asked if name not in own and name in taken]
    if refused:
        text = refused[0] if len(refused) == 1 else f"[{', '.join(refused)}]"
        return "ShortNamesConflict", text
    accepted.pop("shortNames", None)
    if asked:
        accepted["shortNames"] = list(asked)
    return None


GROUP, VERSION, PLURAL = "apiextensions.k8s.io", "v1", "customresourcedefinitions"
APPROVAL_CONDITION = "KubernetesAPIApprovalPolicyConformant"
_MANAGER = "kube-apiserver"
_log = logging.getLogger(__name__)


class Establisher:
    """Watcher of CustomResourceDefinitions, from `start` to `stop`, which serves their resources."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        *,
        metadata: Schema | None = None,
        call_webhook: CallWebhook | None = None,
    ) -> None:
        """Set up the establisher; `metadata` is the schema of ObjectMeta.

        `call_webhook` posts to conversion webhooks; with None, a conversion only changes `apiVersion`.
        """
        self._store = store
        self._registry = registry
        self._clock = clock
        self._metadata = metadata
        self._call_webhook = call_webhook
        self._served: dict[str, tuple[tuple[str, str], Any, bool]] = {}
        """By definition name: (group, plural), (spec, accepted names), and whether it is being deleted."""
        self._closing: dict[tuple[str, str], str] = {}
        self._removing: dict[tuple[str, str], Iterator[Stored]] = {}
        """By (group, plural): the objects that the deletion of a definition must still delete or mark."""
        self._due: dict[str, None] = {}
        self._scheduled: asyncio.Handle | None = None
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Serve the existing CustomResourceDefinitions, and watch the store for changes."""
        self._unsubscribe = self._store.subscribe(self._changed)
        for stored in self._store.select(GROUP, PLURAL):
            self._follow(stored.key.name, stored.decode())
        self.settle()

    def stop(self) -> None:
        """Stop watching CustomResourceDefinitions; their resources remain served."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._unschedule()

    def _unschedule(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None

    def settle(self) -> None:
        """Do all pending work now: write statuses, delete custom objects and CustomResourceDefinitions."""
        while self._due:
            self._settle_due()

    def _settle_due(self) -> None:
        """Process the definitions that are due now; work that they add runs after other requests."""
        self._unschedule()
        for name in list(self._due):
            del self._due[name]
            stored = self._store.get(_key(name))
            if stored is not None:
                self._settle(name, stored.decode())

    def _changed(self, change: Change) -> None:
        key = change.key
        if (key.group, key.plural) != (GROUP, PLURAL):
            closing = self._closing.get((key.group, key.plural))
            if closing is not None and None in {change.old, change.new}:
                if change.old is None:  # from a request that began before the deletion
                    self._removing.pop((key.group, key.plural), None)
                self._later(closing)
            return
        if change.new is not None:
            self._follow(key.name, change.new.decode())
            return
        served = self._served.pop(key.name, None)
        if served is not None:
            self._registry.replace(*served[0], ())
            self._closing.pop(served[0], None)
            self._removing.pop(served[0], None)
        # Other CustomResourceDefinitions may wait for the names that the deletion has freed.
        for stored in self._group_of(key.name):
            self._later(stored.key.name)

    def _follow(self, name: str, obj: Object) -> None:
        if is_true(obj, "Established"):
            self._serve(name, obj)
        self._later(name)

    def _serve(self, name: str, obj: Object) -> None:
        spec = obj["spec"]
        names = (spec["group"], spec["names"]["plural"])
        state = (
            names,
            (spec, (obj.get("status") or {}).get("acceptedNames")),
            "deletionTimestamp" in obj["metadata"],
        )
        served = self._served.get(name)
        if served == state:
            return
        if served is not None and served[:2] == state[:2]:
            self._served[name] = state
            versions = self._registry.versions(*names)
            self._registry.replace(*names, [dataclasses.replace(each, closing=state[2]) for each in versions])
            return
        try:
            resources = resources_of(obj, metadata=self._metadata, call_webhook=self._call_webhook)
        except Exception:  # noqa: BLE001 -- an earlier devcluster may have accepted an invalid definition
            _log.exception("cannot serve the CustomResourceDefinition %s", name)
            return
        self._served[name] = state
        self._registry.replace(*names, resources)

    def _later(self, name: str) -> None:
        self._due[name] = None
        if self._scheduled is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return  # a caller without an event loop calls settle
            self._scheduled = loop.call_soon(self._settle_due)

    def _settle(self, name: str, obj: Object) -> None:
        if "deletionTimestamp" in obj["metadata"]:
            if CLEANUP_FINALIZER in (obj["metadata"].get("finalizers") or ()):
                self._clean_up(name, obj)
            return
        if is_protected(obj):
            obj = self._set_approval(name, obj)
        others = (each.decode() for each in self._group_of(name))
        if accept_names(obj, others, self._clock.timestamp()):
            obj = self._write(name, obj)
            # Another CustomResourceDefinition may now get a name that this one has given up.
            for each in self._group_of(name):
                if not is_true(each.decode(), "Established"):
                    self._due[each.key.name] = None
        if _is_accepted(obj) and not is_true(obj, "Established"):
            message = "the initial names have been accepted"
            update_condition(
                obj, "Established", "True", "InitialNamesAccepted", message, self._clock.timestamp()
            )
            self._write(name, obj)

    def _set_approval(self, name: str, obj: Object) -> Object:
        reason, message = approval_of(obj)
        found = condition_of(obj, APPROVAL_CONDITION)
        if found is not None and (found.get("reason"), found.get("message")) == (reason, message):
            return obj
        status = "True" if reason == APPROVED else "False"
        update_condition(obj, APPROVAL_CONDITION, status, reason, message, self._clock.timestamp())
        return self._write(name, obj)

    def _group_of(self, name: str) -> Iterator[Stored]:
        """Yield the other definitions of the same group; the group is a part of a definition's name."""
        group = name.partition(".")[2]
        for stored in self._store.select(GROUP, PLURAL):
            if stored.key.name != name and stored.key.name.partition(".")[2] == group:
                yield stored

    def _clean_up(self, name: str, obj: Object) -> None:
        names = (obj["spec"]["group"], obj["spec"]["names"]["plural"])
        now = self._clock.timestamp()
        if is_true(obj, "Established"):
            self._closing[names] = name
            message = "CustomResource deletion is in progress"
            update_condition(obj, "Terminating", "True", "InstanceDeletionInProgress", message, now)
            obj = self._write(name, obj)
            self._remove_objects(name, names)
            if self._store.count(*names):
                return
            reason, message = "InstanceDeletionCompleted", "removed all instances"
        else:
            reason, message = "NeverEstablished", "resource was never established"
        update_condition(obj, "Terminating", "False", reason, message, now)
        finalizers = [each for each in obj["metadata"]["finalizers"] if each != CLEANUP_FINALIZER]
        if finalizers:
            obj["metadata"]["finalizers"] = finalizers
        else:
            del obj["metadata"]["finalizers"]
        self._write(name, obj)
        if not finalizers:
            self._store.delete(_key(name))

    def _remove_objects(self, name: str, names: tuple[str, str]) -> None:
        """Delete a portion of the custom objects; set the deletionTimestamp of those with finalizers."""
        if names not in self._removing:
            self._removing[names] = iter(self._store.select(*names))
        portion = list(itertools.islice(self._removing[names], _PORTION))
        if portion:
            self._later(name)
        for each in portion:
            stored = self._store.get(each.key)
            if stored is None:
                continue
            obj = stored.decode()
            metadata = obj["metadata"]
            if not metadata.get("finalizers"):
                self._store.delete(stored.key)
            elif "deletionTimestamp" not in metadata:
                metadata["generation"] = metadata.get("generation", 0) + 1
                metadata["deletionTimestamp"] = self._clock.timestamp()
                metadata["deletionGracePeriodSeconds"] = 0
                self._store.update(stored.key, obj)

    def _write(self, name: str, obj: Object) -> Object:
        before = self._store.get(_key(name))
        assert before is not None
        resource: Resource | None = self._registry.find(GROUP, VERSION, PLURAL)
        if resource is not None:
            write = Write(
                schema=resource.schema,
                manager=_MANAGER,
                api_version=f"{GROUP}/{VERSION}",
                now=self._clock.timestamp(),
                subresource="status",
                reset=("spec",),
            )
            record_update(obj, before.decode(), write)
        return self._store.update(_key(name), obj).decode()


def _key(name: str) -> Key:
    return Key(GROUP, PLURAL, "", name)


def _is_accepted(obj: Object) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "NamesAccepted" and each.get("status") == "True" for each in conditions)
