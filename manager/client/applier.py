"""Server-side apply that sends nothing when nothing would change, and the request under all writes."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar, Unpack, overload

import orjson
from pydantic import ValidationError

from manager.api import GroupVersionKind, ObjectKey, OwnerReference, Resource
from manager.cache import Cache, Record
from manager.client.errors import ApplyConflict, FieldConflict, OwnedByOther
from manager.client.nearest_field import name_nearest
from manager.client.ownership import (
    OwnEntries,
    Path,
    creator_name,
    field_name,
    field_path,
    holds,
    may_repeat_keys,
    own_entries,
    setters,
    shares,
    takeover_patch,
    version_patch,
    wants_otherwise,
    without_fields,
)
from manager.client.reader import decode_at_once
from manager.client.repair import RefusedRepairs, Repair, refused_lists, repair_patch
from manager.client.write import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRICT,
    ChildLabel,
    KubernetesModel,
    Query,
    applied_fields,
    booked,
    encode_applied,
    resource_of,
)
from manager.kube.decoding import json_object, not_a
from manager.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NoMatch,
    NotFound,
    ServerError,
)
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.runs import current_record
from manager.util.loop import own_turn

R = TypeVar("R", bound=Resource)

SETTLED_OBJECTS = 10_000
"""How many objects the applier remembers as equal in the server's eyes."""

# Of items that are in a refused list, for how many it is tried whether they can stay.
_MOST_KEPT = 16

_UNTYPED = "failed to create typed patch object"

# How often the record of our create is renamed while others change the object in between.
TAKEOVER_ATTEMPTS = 3

# Metadata that an applied object may set; the rest is the server's or names the object.
APPLIED_METADATA = ("labels", "annotations", "ownerReferences", "finalizers")


Written = tuple[bytes, tuple[FieldConflict, ...]]
"""The answer to a write, and what others had set otherwise."""


class Outcome(enum.Enum):
    """The effect of an apply, and its cause."""

    CREATED = "created"
    UPDATED = "updated"
    """It is wanted differently than at the last apply, as far as this can be known."""

    RESTORED = "restored"
    """Another client had changed it."""

    UNCHANGED = "unchanged"


class Applied(NamedTuple, Generic[R]):
    """The result of an apply.

    Attributes: `object` as the server has it now; `previous` as it was before, None unless it was changed;
    `outcome`; `conflicts`, the fields that other managers had set to other values, with these managers.
    """

    object: R
    previous: R | None
    outcome: Outcome
    conflicts: tuple[FieldConflict, ...] = ()


class ApplyOptions(TypedDict, total=False):
    """The options of `Client.apply`; only `force` is true by default."""

    owner: Resource | None
    initial: Sequence[str]
    may_update: Callable[[], bool] | None
    adopt: bool
    force: bool
    dry_run: bool


class _Change(NamedTuple):
    """The change of an existing object that an apply wants."""

    kind: type[Resource]
    key: ObjectKey
    encoded: bytes
    """The fields to apply."""
    given_up: Sequence[Path]
    """Fields that are left to others."""
    force: bool
    dry_run: bool


class Applier:
    """The writing half of a client: it applies some fields, and leaves all others to other managers."""

    def __init__(
        self,
        transport: Transport,
        mapper: RestMapper,
        cache: Cache,
        *,
        field_manager: str,
        former_managers: Sequence[str] = (),
        child_label: ChildLabel | None = None,
    ) -> None:
        self._transport = transport
        self._mapper = mapper
        self._cache = cache
        self.field_manager = field_manager
        self.former_managers = tuple(former_managers)
        self.child_label = child_label
        cache.managers.add(former_managers)
        self._settled: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """By UID: hashes of the wanted fields that an object has, and of its state right after our write.

        There is nothing to write as long as both, and our part of the object, stay the same (see `_state`).
        This check costs a third of a comparison. And no comparison without the schema can recognise a value
        that the server spells in its own way: it stores a quantity of "0.5" as "500m", and drops an empty
        list.
        """
        self._corrected: OrderedDict[str, dict[str, Any]] = OrderedDict()
        """By UID: the metadata that `correct` was last called with."""
        self._refused = RefusedRepairs(SETTLED_OBJECTS)

    @overload
    async def apply(self, obj: R, **options: Unpack[ApplyOptions]) -> Applied[R]: ...
    @overload
    async def apply(self, obj: KubernetesModel, **options: Unpack[ApplyOptions]) -> Applied[Any]: ...
    async def apply(self, obj: Resource | KubernetesModel, **options: Unpack[ApplyOptions]) -> Applied[Any]:
        """Set the fields of the object that `obj` has, creating it if it is missing.

        This is a forced server-side apply: it reverts other clients' changes of these fields, removes fields
        that an earlier apply set and `obj` no longer has, and leaves all other fields. It sends nothing if
        the cached object already matches. The outcome is RESTORED if `obj` equals the last apply, so that
        another client has changed the object, and UPDATED otherwise.

        If other managers have set these fields to other values, the result names the managers and the fields.
        With `force=False`, apply raises ApplyConflict with the same details instead.

        `initial` are paths, such as `.spec.replicas`, of fields that apply sets when it creates the object,
        and leaves to others from then on. If the client owns them already, it gives them up, and their values
        stay.

        `may_update` is called before an update, but not before a creation or restoration. If it returns
        False, nothing is sent.

        With `owner`, the object gets a controller reference to it. An object with another controller, or
        none, stays as it is: raises OwnedByOther, which says whether this client created it. With `adopt`, an
        object without a controller that this client created becomes the owner's. Raises ValueError for an
        owner in another namespace, or for a namespaced owner of a cluster-scoped object.

        A refused apply changes nothing. If the server refuses it only because others have put items into our
        lists, one patch sets the same fields and removes these items, provided that its dry run succeeds.

        A dry run of an object that this client has created, and not changed since, cannot show conflicts.
        """
        obj = resource_of(obj)
        kind, key = type(obj), obj.key
        owner, adopt = options.get("owner"), options.get("adopt", False)
        may_update, dry_run = options.get("may_update"), options.get("dry_run", False)
        given_up = tuple(map(field_path, options.get("initial", ())))
        wanted = applied_fields(obj, owner, self.child_label)
        if not kind.namespaced:
            await self._check_owners(obj, kind)
        found = await (self._find_stored(kind, key) if adopt else self._find_known(kind, key, owner))
        if found is None:
            try:
                return await self._create(obj, wanted, given_up, dry_run=dry_run)
            except AlreadyExists:
                # Not in the cache yet, or made by another client a moment ago: look before touching it.
                found = await self._read_stored(kind, key)
        await own_turn(len(found))
        live = _decoded(kind, found)
        adopted = False
        if owner is not None:
            adopted = self._refuse_foreign(kind, key, live, owner, adopt=adopt)
            self._keep_label(wanted, owner, live)
        encoded = encode_applied(wanted, obj)
        if given_up:
            wanted = without_fields(orjson.loads(encoded), given_up)
            encoded = orjson.dumps(wanted)
        own = own_entries(live, self.field_manager, self.former_managers)
        # The entry of our create is only taken over before something is changed.
        taken_over = own.former or bool(given_up and own.applied is not None and own.owns(given_up))
        uid = live["metadata"]["uid"]
        last, state = self._settled.get(uid, (_UNKNOWN, _UNKNOWN))
        is_wanted = last == hash(encoded)
        if not taken_over and (
            (is_wanted and state == _state(live, own)) or self._holds(wanted, encoded, live, own)
        ):
            if not is_wanted:
                self._settle(uid, encoded)
            if (run := current_record()) is not None:
                run.add_spared("apply", kind, key)
            return Applied(decode_at_once(found, kind, key, parsed=live), None, Outcome.UNCHANGED)
        if may_update is not None and not self._wants_the_same(encoded, live, own, ()) and not may_update():
            return Applied(decode_at_once(found, kind, key, parsed=live), None, Outcome.UNCHANGED)
        change = _Change(kind, key, encoded, given_up, options.get("force", True), dry_run)
        # The uid makes the apply one of this very object: one that was replaced meanwhile is refused.
        body = orjson.dumps({**orjson.loads(encoded), "metadata": {**wanted["metadata"], "uid": uid}})
        raw, conflicts = await self._write(
            change, body, live, taken_over=taken_over or own.created is not None
        )
        await own_turn(len(raw))
        restores = adopted or self._wants_the_same(encoded, live, own, conflicts)
        after = _decoded(kind, raw)
        if not dry_run:
            self._settle(uid, encoded, after)
        now = decode_at_once(raw, kind, key, parsed=after)
        if _content(after) == _content(live):
            return Applied(now, None, Outcome.UNCHANGED)  # only ownership was to be written down
        outcome = Outcome.RESTORED if restores else Outcome.UPDATED
        return Applied(now, decode_at_once(found, kind, key, parsed=live), outcome, conflicts)

    async def _write(
        self, change: _Change, body: bytes, live: dict[str, Any], *, taken_over: bool
    ) -> Written:
        """Apply over an existing object, or repair the apply."""
        try:
            return await self._update(change, body, taken_over=taken_over)
        except Invalid as refusal:
            # Others may have put items into our lists.
            if not change.force:
                raise
            repaired = await self._repair(change, live, refusal)
        if change.dry_run:
            return repaired
        # The object is as it is wanted. This writes down that it is ours.
        return (await self._update(change, body, taken_over=True))[0], repaired[1]

    async def _update(self, change: _Change, body: bytes, *, taken_over: bool) -> Written:
        """Apply over an existing object; with `taken_over`, entries of managedFields join ours first.

        If other managers have set the fields, a second request uses `force`: only a refusal names the
        managers.
        """
        kind, key, dry_run = change.kind, change.key, change.dry_run
        if taken_over:
            found = await self._read_stored(kind, key)
            raw = await self._try(change, _decoded(kind, found), orjson.loads(body))
            if dry_run:
                return raw, ()
            await self._take_over(change, body, found)
        try:
            return await self._send_apply(kind, key, body, force=False, dry_run=dry_run), ()
        except ApplyConflict as conflict:
            if not change.force:
                raise
            raw = await self._send_apply(kind, key, body, force=True, dry_run=dry_run)
            return raw, conflict.conflicts

    async def _try(self, change: _Change, there: dict[str, Any], wanted: dict[str, Any]) -> bytes:
        """Try an apply before entries join ours, so that a refusal changes nothing, not even the record.

        A dry run of the apply itself keeps the fields of the other entries, and may be refused for them: two
        ports of one name, for example. So this tries a patch that removes them. Returns the object that the
        server would store.
        """
        patch, _, releases, _ = repair_patch(there, wanted, *self._shares(change, there))
        try:
            raw = await self._send_apply(
                change.kind, change.key, orjson.dumps(wanted), force=True, dry_run=True
            )
        except Invalid:
            if not releases:
                raise
        else:
            if not releases:
                return raw
        patch.setdefault("metadata", {})["uid"] = wanted["metadata"]["uid"]
        query = booked(self.field_manager, dry_run=True)
        body = orjson.dumps(patch)
        return await self._send("PATCH", change.kind, change.key, body, query, content_type=MERGE_PATCH)

    def _shares(
        self, change: _Change, there: dict[str, Any]
    ) -> tuple[Mapping[str, Any], list[tuple[str, Mapping[str, Any]]]]:
        entries, version = there["metadata"].get("managedFields", ()), change.kind.gvk.api_version
        return shares(entries, self.field_manager, self.former_managers, change.given_up, version)

    async def _repair(self, change: _Change, live: dict[str, Any], refusal: Invalid) -> Written:
        """Make the changes of a refused apply by a patch, which also removes conflicting items of others.

        Raises the refusal if it has another cause (see `repair`), or the server's answer to a dry run of the
        patch, and remembers that answer for a while. Nothing has been changed then.
        """
        kind, key, encoded = change.kind, change.key, change.encoded
        uid, candidates = live["metadata"]["uid"], refused_lists(refusal.details)
        state = hash((encoded, _content(live)))
        if not candidates:
            raise refusal
        if (known := self._refused.get(uid, state)) is not None:
            raise type(known)(known.status, known.reason, known.message, known.details)
        wanted, conflict = orjson.loads(encoded), None
        # The next apply takes over the fields recorded under this name.
        manager = creator_name(self.field_manager, encoded)
        for _ in range(TAKEOVER_ATTEMPTS):
            found = await self._find_stored(kind, key)
            there = None if found is None else _decoded(kind, found)
            if there is None or there["metadata"]["uid"] != uid:
                raise refusal
            shared = self._shares(change, there)
            for lists in candidates:
                made = partial(repair_patch, there, wanted, *shared, lists)
                if (repair := made()).removed:
                    break
            else:
                raise refusal
            version = there["metadata"].get("resourceVersion")

            def sending(repair: Repair, version: str = version) -> Callable[..., Awaitable[bytes]]:
                patch = repair.patch
                patch.setdefault("metadata", {}).update(uid=uid, resourceVersion=version)
                send = partial(self._send, "PATCH", kind, key, orjson.dumps(patch))
                return partial(send, content_type=MERGE_PATCH)

            try:
                raw = await sending(repair)(booked(manager, dry_run=True))
                keeps = set[Path]()
                for each in repair.removed[:_MOST_KEPT] if len(repair.removed) > 1 else ():
                    with suppress(Invalid):  # it is in the way
                        less = made(keeps={*keeps, each})
                        raw = await sending(less)(booked(manager, dry_run=True))
                        keeps, repair = {*keeps, each}, less
                if not change.dry_run:
                    raw = await sending(repair)(booked(manager), replaces=version)
                return raw, repair.conflicts
            except (Invalid, Forbidden, BadRequest) as error:
                self._refused.put(uid, state, error)
                raise
            except Conflict as error:
                conflict = error  # it has changed since, if only in its status
        raise conflict or refusal

    async def _read_stored(self, kind: type[Resource], key: ObjectKey) -> bytes:
        """Return the object as the server has it now, with every manager's fields."""
        mapping = await self._mapper.resolve(kind.gvk)
        return await self._transport.request("GET", mapping.path(key.namespace, key.name))

    async def _find_stored(self, kind: type[Resource], key: ObjectKey) -> bytes | None:
        try:
            return await self._read_stored(kind, key)
        except NotFound:
            return None

    async def refuse_foreign(self, kind: type[Resource], key: ObjectKey, owner: Resource) -> None:
        """Raise OwnedByOther as `apply` would for the object of that name; nothing is written."""
        found = await self._find_known(kind, key, owner)
        if found is not None:
            await own_turn(len(found))
            self._refuse_foreign(kind, key, _decoded(kind, found), owner)

    async def _check_owners(self, obj: Resource, kind: type[Resource]) -> None:
        """Raise ValueError for an owner in a namespace, which an object in no namespace cannot have.

        The garbage collector would take the object for an orphan, and delete it. In which namespace an owner
        of other objects is, a reference does not say: it is the object's.
        """
        for owner in obj.metadata.owner_references:
            gvk = GroupVersionKind.from_api_version(owner.api_version, owner.kind)
            try:
                mapping = await self._mapper.resolve(gvk)
            except NoMatch:
                continue
            if mapping.namespaced:
                child = f"{kind.gvk.kind} {obj.metadata.name}"
                raise ValueError(f"{owner.kind} {owner.name} cannot own {child}, which is in no namespace")

    async def _correct(self, obj: R, patch: Callable[[], Awaitable[R]]) -> Applied[R]:
        """Write the changed metadata of an object by `patch`; see `Client.correct`."""
        assert obj.origin is not None
        kind, key, uid = type(obj), obj.key, obj.metadata.uid
        wanted = applied_fields(obj, None, None)["metadata"]
        last = self._corrected.get(uid, {})
        changes = list(_metadata_changes(_decoded(kind, obj.origin)["metadata"], wanted))
        if not changes:
            self._remember(uid, wanted)
            return Applied(obj, None, Outcome.UNCHANGED)
        raw = await self._read_stored(kind, key)  # the cache has no entries of other managers
        live = _decoded(kind, raw)
        stored = await patch()
        self._remember(uid, wanted)
        removed, conflicts = False, []
        for steps, value in changes:
            entries = live["metadata"].get("managedFields", ())
            others = setters(entries, steps, self.field_manager, self.former_managers)
            name, field = steps[1].removeprefix("f:"), steps[2].removeprefix("f:")
            path = f".metadata.{name}" + (f".{field}" if isinstance(value, str) else "")
            conflicts += [FieldConflict(other, path) for other in others or ()]
            removed = removed or (others == [] and (steps, value) in _metadata_changes({}, last))
        outcome = Outcome.RESTORED if conflicts or removed else Outcome.UPDATED
        before = decode_at_once(raw, kind, key, parsed=live)
        return Applied(stored, before, outcome, tuple(dict.fromkeys(conflicts)))

    def _remember(self, uid: str, wanted: dict[str, Any]) -> None:
        self._corrected[uid] = wanted
        self._corrected.move_to_end(uid)
        if len(self._corrected) > SETTLED_OBJECTS:
            self._corrected.popitem(last=False)

    async def _send_apply(
        self,
        kind: type[Resource],
        key: ObjectKey,
        body: bytes,
        *,
        force: bool,
        dry_run: bool,
        field_manager: str = "",
        creates: bool = False,
    ) -> bytes:
        """Send a server-side apply; return the object as stored.

        `creates` says that the body cannot change an existing object. Raises ApplyConflict, and BadRequest
        for a body that does not fit the schema.
        """
        query = {
            **booked(field_manager or self.field_manager, dry_run=dry_run),
            "force": "true" if force else "false",
        }
        try:
            return await self._send(
                "PATCH", kind, key, body, query, content_type=APPLY_PATCH, creates=creates
            )
        except Conflict as error:
            raise ApplyConflict.of(error) or error from None
        except ServerError as error:
            # The server says 500 of an apply with a field it does not know, or with one key twice.
            if error.message.startswith(_UNTYPED):
                what = error.message.partition("): ")[2] or error.message
                raise BadRequest(400, "BadRequest", f"{kind.gvk.kind} {key}: {what}") from error
            raise

    async def _send(
        self,
        method: str,
        kind: type[Resource],
        key: ObjectKey,
        body: bytes,
        query: Query,
        *,
        content_type: str = JSON,
        subresource: str = "",
        replaces: str = "",
        creates: bool = False,
    ) -> bytes:
        """Write an object, or a subresource of it; return it as stored, which the next cached read shows.

        `replaces` is the resourceVersion that the body demands, if it does; `creates` says that it demands
        that there is no such object. The answer to a dry run (see `booked`) does not go to the cache.
        """
        mapping = await self._mapper.resolve(kind.gvk)
        name, new = key.name, ""
        if method == "POST":
            if mapping.namespaced and not key.namespace:
                raise ValueError(f"{kind.gvk} is namespaced: {name!r} needs a metadata.namespace")
            name, new, creates = "", name, True
        path = mapping.path(key.namespace, name, subresource)
        try:
            raw = await self._transport.request(
                method, path, query=query, body=body, content_type=content_type, name=new
            )
        except NotFound as error:
            raise await self._mapper.explain_not_found(error, kind.gvk, subresource) from None
        except BadRequest as error:
            name_nearest(error, kind)
            raise
        if "dryRun" not in query:
            # "0" demands nothing
            self._cache.observe_write(kind, raw, before=0 if creates else int(replaces or 0) or None)
        return raw

    def _wants_the_same(
        self, encoded: bytes, live: dict[str, Any], own: OwnEntries, conflicts: Sequence[FieldConflict]
    ) -> bool:
        """Return whether our last apply of the object was the same, so that another client has changed it.

        Of an object that another process of ours has written last, the record of fields tells, unless others
        have only removed fields, or moved items: the record does not say so.
        """
        known = self._settled.get(live["metadata"]["uid"])
        if known is not None:
            if known[0] != hash(encoded) or conflicts or own.applied is None:
                return known[0] == hash(encoded)
            # Another process of ours may have applied something else since; no client has changed it then.
            return not wants_otherwise(_fields(orjson.loads(encoded)), live, own.applied)
        if own.created is not None:
            return own.created_by == creator_name(self.field_manager, encoded)
        if own.applied is None or not conflicts:
            return False
        return not wants_otherwise(_fields(orjson.loads(encoded)), live, own.applied)

    async def _find_known(self, kind: type[Resource], key: ObjectKey, owner: Resource | None) -> bytes | None:
        """Return the known JSON of the object, maybe only metadata if it is certainly not the owner's."""
        informer = self._cache.lookup(kind, metadata_only=False)
        if informer is not None and informer.covers(key.namespace):
            record = informer.get(key)
            if record is not None and (not record.is_cut or _is_foreign(record, owner)):
                return record.raw
            if record is None and informer.filter is None:
                return None
        # A selection says nothing about other objects, and neither does a replica's shard.
        selected = self._cache.held(kind, key)
        if selected is not None:
            return selected.raw
        return await self._find_stored(kind, key)

    async def _create(
        self, obj: R, wanted: dict[str, Any], given_up: Sequence[Path], *, dry_run: bool
    ) -> Applied[R]:
        kind, key, encoded = type(obj), obj.key, encode_applied(wanted, obj)
        whole, kept = orjson.loads(encoded), encoded
        for path in given_up:
            if without_fields(whole, (path,)) == whole:
                raise ValueError(f"{kind.gvk.kind} {key} is created without its initial {field_name(path)}")
        if given_up:
            kept = orjson.dumps(without_fields(whole, given_up))
        if may_repeat_keys(whole):
            # POST takes two items with one key, and no apply does, now or later. So an apply creates it. Of
            # an object that is there it demands a version that no object has.
            named = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": "1"}}
            body = encode_applied(named, obj)
            try:
                raw = await self._send_apply(kind, key, body, force=True, dry_run=dry_run, creates=True)
            except Conflict as error:
                raise AlreadyExists(409, "AlreadyExists", str(error)) from error
        else:
            query = {**booked(creator_name(self.field_manager, kept), dry_run=dry_run), **STRICT}
            raw = await self._send("POST", kind, key, encoded, query)
        after = _decoded(kind, raw)
        if not dry_run:
            self._settle(after["metadata"]["uid"], kept, after)
        return Applied(decode_at_once(raw, kind, key, parsed=after), None, Outcome.CREATED)

    def _refuse_foreign(
        self,
        kind: type[Resource],
        key: ObjectKey,
        live: dict[str, Any],
        owner: Resource,
        *,
        adopt: bool = False,
    ) -> bool:
        """Raise OwnedByOther unless the owner is the controller; return True for one without, if `adopt`."""
        references = live["metadata"].get("ownerReferences", ())
        controllers = [each for each in references if each.get("controller")]
        controller = controllers[0] if controllers else None
        if controller is None:
            own = own_entries(live, self.field_manager, self.former_managers)
            made_here = own.created is not None or own.applied is not None or own.former
            if adopt and made_here:
                return True
            raise OwnedByOther(kind.gvk.kind, key, None, made_here=made_here)
        if controller.get("uid") != owner.metadata.uid:
            try:
                other = OwnerReference.model_validate(controller)
            except ValidationError:
                raise not_a(f"a {kind.gvk.kind} object") from None
            metadata = live["metadata"]
            finalizers = None if "deletionTimestamp" not in metadata else metadata.get("finalizers") or ()
            raise OwnedByOther(kind.gvk.kind, key, other, finalizers=finalizers)
        return False

    def _keep_label(self, wanted: dict[str, Any], owner: Resource, live: dict[str, Any]) -> None:
        """Want the label of the owner that a child has, though none is set any more (see `ChildLabel`)."""
        label = self.child_label
        if label is None or label.is_set:
            return
        value = (live["metadata"].get("labels") or {}).get(label.key)
        if value is not None and value == label.value_of(owner.metadata.uid):
            wanted["metadata"].setdefault("labels", {})[label.key] = value

    def _holds(
        self, wanted: dict[str, Any], encoded: bytes, live: dict[str, Any], entries: OwnEntries
    ) -> bool:
        """Return whether the object has all wanted fields, under our name."""
        if entries.created is not None:
            if entries.created_by != creator_name(self.field_manager, encoded):
                return False
            owned = entries.created
        elif entries.applied is not None:
            owned = entries.applied
        else:
            return False
        # After a create the server records its defaults under our name, too.
        exact = entries.created is None
        # As it is first: that is nearly always plain. In JSON a tuple, say, is a list.
        if holds(_fields(wanted), live, owned, exact=exact):
            return True
        return holds(_fields(orjson.loads(encoded)), live, owned, exact=exact)

    def _settle(self, uid: str, encoded: bytes, after: dict[str, Any] | None = None) -> None:
        """Remember that an object has the wanted fields, and with `after` what our write has stored."""
        state = _UNKNOWN
        if after is not None:
            state = _state(after, own_entries(after, self.field_manager, self.former_managers))
        self._settled[uid] = hash(encoded), state
        self._settled.move_to_end(uid)
        if len(self._settled) > SETTLED_OBJECTS:
            self._settled.popitem(last=False)

    async def _take_over(self, change: _Change, body: bytes, found: bytes) -> None:
        """Merge our entries into one apply entry (see `ownership`); `body` is the next apply.

        `found` is the object from the server: the cache keeps our own entries only, and the patch needs the
        position among all.
        """
        kind, key, given_up = change.kind, change.key, change.given_up
        resource_version, refusal, attempts = None, None, 0
        known = self.field_manager, self.former_managers
        while attempts < TAKEOVER_ATTEMPTS:
            metadata = _decoded(kind, found)["metadata"]
            entries = metadata.get("managedFields", ())
            translated = version_patch(entries, *known, given_up, kind.gvk.api_version)
            patch = translated[1] if translated else takeover_patch(entries, *known, given_up)
            if patch is None:
                return
            if refusal is not None and metadata.get("resourceVersion") == resource_version:
                raise refusal  # no other client has written in between
            resource_version = metadata.get("resourceVersion")
            try:
                if patch:
                    query = booked(self.field_manager)
                    sent = orjson.dumps(patch)
                    await self._send("PATCH", kind, key, sent, query, content_type=JSON_PATCH)
            except Invalid as error:
                refusal, attempts = error, attempts + 1
            else:
                if translated is None:
                    return
                name = translated[0]
                await self._send_apply(kind, key, body, force=True, dry_run=False, field_manager=name)
            found = await self._read_stored(kind, key)
        raise Conflict(409, "Conflict", f"{kind.gvk.kind} {key} keeps being changed by others")


_UNKNOWN = -1
"""In place of the hash of a state, which Python never makes it."""


def _state(live: dict[str, Any], own: OwnEntries) -> int:
    # Python's own hashes have a random key for each process, so no client can construct collisions.
    return hash((_content(live), orjson.dumps((own.created or own.applied, own.created_by))))


def _decoded(kind: type[Resource], raw: bytes) -> dict[str, Any]:
    """Parse an object's JSON and check the metadata that this module relies on; raises ProtocolError."""
    what = f"a {kind.gvk.kind} object"
    live = json_object(raw, what)
    metadata = live.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("uid"), str):
        raise not_a(what)
    for name in ("managedFields", "ownerReferences"):
        entries = metadata.get(name, ())
        if not isinstance(entries, list | tuple) or not {*map(type, entries)} <= {dict}:
            raise not_a(what)
    return live


def _is_foreign(record: Record, owner: Resource | None) -> bool:
    controller = None if owner is None else record.meta().controller
    return owner is not None and controller is not None and controller.uid != owner.metadata.uid


def _content(live: dict[str, Any]) -> bytes:
    """Encode the fields of an object that an apply can change, for comparison as a whole."""
    fields = {name: value for name, value in live.items() if name not in ("status", "metadata")}
    fields["metadata"] = {name: live["metadata"].get(name) for name in APPLIED_METADATA}
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def _metadata_changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Return the path and the new value of each label, annotation, finalizer and owner that differs."""
    for name in APPLIED_METADATA:
        old, new = (_by_step(each.get(name) or ()) for each in (before, after))
        for step in {**old, **new}:
            if old.get(step) != new.get(step):
                yield ("f:metadata", f"f:{name}", step), new.get(step)


def _by_step(values: Any) -> dict[str, Any]:
    if isinstance(values, dict):
        return {f"f:{name}": value for name, value in values.items()}
    found = {}
    for each in values:
        named = {"uid": each["uid"]} if isinstance(each, dict) else each
        found[f"{'k' if isinstance(each, dict) else 'v'}:{orjson.dumps(named).decode()}"] = [each]
    return found


def _fields(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an apply whose ownership the server records."""
    fields = {name: value for name, value in wanted.items() if name not in ("apiVersion", "kind", "metadata")}
    metadata = {name: wanted["metadata"][name] for name in APPLIED_METADATA if name in wanted["metadata"]}
    return fields | {"metadata": metadata} if metadata else fields
