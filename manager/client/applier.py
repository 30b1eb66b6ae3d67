"""Server-side apply that sends nothing when nothing would change, and the request under all writes."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypedDict, TypeVar, Unpack, overload

import orjson
from pydantic import ValidationError

from manager.api import GroupVersionKind, ObjectKey, OwnerReference, Resource
from manager.cache import Cache
from manager.client.errors import ApplyConflict, FieldConflict, OwnedByOther, name_nearest
from manager.client.ownership import (
    APPLIED_METADATA,
    Ownership,
    Path,
    creator_name,
    field_name,
    field_path,
    holds,
    may_repeat_keys,
    wants_otherwise,
    without_fields,
)
from manager.client.pod_streams import PodStreams
from manager.client.reader import CachedReader, LiveReader, MetadataReader, decode_at_once
from manager.client.repair import Repair, refused_lists
from manager.client.write import (
    APPLY_PATCH,
    DRY_RUN,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    ChildLabel,
    KubernetesModel,
    StatusClient,
    applied_fields,
    encode_applied,
    record_spared,
    remember,
    resource_of,
)
from manager.kube.decoding import json_object, not_a
from manager.kube.errors import (
    AlreadyExists,
    ApiError,
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
from manager.util import clock
from manager.util.loop import own_turn

if TYPE_CHECKING:
    from manager.client.kubernetes_client import TransportApiClient

R = TypeVar("R", bound=Resource)

SETTLED_OBJECTS = 10_000
"""How many objects the applier remembers as equal in the server's eyes."""

REFUSED_SECONDS = 300.0
"""For how long a repair is not tried again after the server has refused it. No event tells when the server
would accept it: when a policy changes, say."""

# Of items that are in a refused list, for how many it is tried whether they can stay.
_MOST_KEPT = 16

_UNTYPED = "failed to create typed patch object"

# How often the record of our create is renamed while others change the object in between.
TAKEOVER_ATTEMPTS = 3

_UNKNOWN = -1
"""In place of the hash of a state, which Python never makes it."""

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


@dataclass(slots=True)
class _Change:
    """The change of an existing object that an apply wants."""

    kind: type[Resource]
    key: ObjectKey
    uid: str
    body: dict[str, Any]
    """The fields to apply, and the uid: an object that was replaced meanwhile is refused."""
    given_up: Sequence[Path]
    """Fields that are left to others."""
    force: bool
    dry_run: bool


class Applier(CachedReader):
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
        self.uncached = LiveReader(transport, mapper)
        super().__init__(cache, live=self.uncached)
        self.metadata = MetadataReader(cache, live=self.uncached)
        self.status = StatusClient(self._send)
        self.pod_streams = PodStreams(transport)
        self._transport = transport
        self._mapper = mapper
        self.field_manager = field_manager
        self.former_managers = tuple(former_managers)
        self.child_label = child_label
        self._ownership = partial(Ownership, field_manager=field_manager, former=self.former_managers)
        cache.managers.add(former_managers)
        self._settled = OrderedDict[str, tuple[int, int]]()
        """By UID: hashes of the wanted fields that an object has, and of its state right after our write.

        There is nothing to write as long as both, and our part of the object, stay the same (see `_state`).
        This check costs a third of a comparison. And no comparison without the schema can recognise a value
        that the server spells in its own way: it stores a quantity of "0.5" as "500m", and drops an empty
        list.
        """
        self._corrected = OrderedDict[str, dict[Path, Any]]()
        """By UID: the metadata that `correct` was last called with."""
        self._refused = OrderedDict[str, tuple[int, float, ApiError]]()
        """By UID: the state whose repair the server has refused, until when it is not repeated, and why."""
        self._kubernetes_client: TransportApiClient | None = None

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
        found = await self._find_known(kind, key, owner, adopt=adopt)
        if found is None:
            try:
                return await self._create(obj, wanted, given_up, dry_run=dry_run)
            except AlreadyExists:
                # Not in the cache yet, or made by another client a moment ago: look before touching it.
                found = await self._read_stored(kind, key)
        await own_turn(len(found))
        live = decoded(kind, found)
        own = self._ownership(live)
        adopted = False
        if owner is not None:
            adopted = _refuse_foreign(kind, key, live, own, owner, adopt=adopt)
            self._keep_label(wanted, owner, live)
        encoded = encode_applied(wanted, obj)
        if given_up:
            wanted = without_fields(orjson.loads(encoded), given_up)
            encoded = orjson.dumps(wanted)
        # The entry of our create is only taken over before something is changed.
        taken_over = own.former or bool(given_up and own.applied is not None and own.owns(given_up))
        uid = live["metadata"]["uid"]
        last, state = self._settled.get(uid, (_UNKNOWN, _UNKNOWN))
        is_wanted = last == hash(encoded)
        spared = not taken_over and (
            (is_wanted and state == _state(live, own)) or self._holds(wanted, encoded, live, own)
        )
        if spared:
            if not is_wanted:
                self._settle(uid, encoded)
            record_spared("apply", kind, key)
        elif may_update is not None and not self._wants_the_same(encoded, live, own, ()):
            spared = not may_update()
        if spared:
            return Applied(decode_at_once(found, kind, key, parsed=live), None, Outcome.UNCHANGED)
        body = {**orjson.loads(encoded), "metadata": {**wanted["metadata"], "uid": uid}}
        change = _Change(kind, key, uid, body, given_up, options.get("force", True), dry_run)
        raw, conflicts = await self._write(
            change, encoded, live, taken_over=taken_over or own.created is not None
        )
        await own_turn(len(raw))
        restores = adopted or self._wants_the_same(encoded, live, own, conflicts)
        after = decoded(kind, raw)
        if not dry_run:
            self._settle(uid, encoded, after)
        now = decode_at_once(raw, kind, key, parsed=after)
        if _content(after) == _content(live):
            return Applied(now, None, Outcome.UNCHANGED)  # only ownership was to be written down
        outcome = Outcome.RESTORED if restores else Outcome.UPDATED
        return Applied(now, decode_at_once(found, kind, key, parsed=live), outcome, conflicts)

    async def refuse_foreign(self, kind: type[Resource], key: ObjectKey, owner: Resource) -> None:
        """Raise OwnedByOther as `apply` would for the object of that name; nothing is written."""
        found = await self._find_known(kind, key, owner)
        if found is not None:
            await own_turn(len(found))
            live = decoded(kind, found)
            _refuse_foreign(kind, key, live, self._ownership(live), owner, adopt=False)

    # Before the write.

    async def _find_known(
        self, kind: type[Resource], key: ObjectKey, owner: Resource | None, *, adopt: bool = False
    ) -> bytes | None:
        """Return the known JSON of the object, maybe only metadata if it is certainly not the owner's.

        With `adopt`, ask the server.
        """
        informer = None if adopt else self._cache.lookup(kind)
        if informer is not None and informer.covers(key.namespace):
            record = informer.get(key)
            if record is None and informer.filter is None:
                return None
            if record is not None and record.is_cut and owner is not None:
                controller = record.meta().controller
                if controller is not None and controller.uid != owner.metadata.uid:
                    return record.raw
            elif record is not None and not record.is_cut:
                return record.raw
        # A selection says nothing about other objects, and neither does a replica's shard.
        selected = None if adopt else self._cache.held(kind, key)
        return await self._find_stored(kind, key) if selected is None else selected.raw

    async def _read_stored(self, kind: type[Resource], key: ObjectKey) -> bytes:
        """Return the object as the server has it now, with every manager's fields."""
        mapping = await self._mapper.resolve(kind.gvk)
        return await self._transport.request("GET", mapping.path(key.namespace, key.name))

    async def _find_stored(self, kind: type[Resource], key: ObjectKey) -> bytes | None:
        try:
            return await self._read_stored(kind, key)
        except NotFound:
            return None

    async def _check_owners(self, obj: Resource, kind: type[Resource]) -> None:
        """Raise ValueError for an owner in a namespace, which an object in no namespace cannot have.

        The garbage collector would take the object for an orphan, and delete it. In which namespace an owner
        of other objects is, a reference does not say: it is the object's.
        """
        for owner in obj.metadata.owner_references:
            with suppress(NoMatch):
                gvk = GroupVersionKind.from_api_version(owner.api_version, owner.kind)
                if (await self._mapper.resolve(gvk)).namespaced:
                    child = f"{kind.gvk.kind} {obj.metadata.name}"
                    raise ValueError(
                        f"{owner.kind} {owner.name} cannot own {child}, which is in no namespace"
                    )

    def _keep_label(self, wanted: dict[str, Any], owner: Resource, live: dict[str, Any]) -> None:
        """Want the label of the owner that a child has, though none is set any more (see `ChildLabel`)."""
        label = self.child_label
        if label is None or label.is_set:
            return
        value = (live["metadata"].get("labels") or {}).get(label.key)
        if value is not None and value == label.value_of(owner.metadata.uid):
            wanted["metadata"].setdefault("labels", {})[label.key] = value

    def _holds(self, wanted: dict[str, Any], encoded: bytes, live: dict[str, Any], own: Ownership) -> bool:
        """Return whether the object has all wanted fields, under our name."""
        owned, exact = own.applied, True
        if own.created is not None:
            if own.created_by != creator_name(self.field_manager, encoded):
                return False
            # After a create the server records its defaults under our name, too.
            owned, exact = own.created, False
        if owned is None:
            return False
        # As it is first: that is nearly always plain. In JSON a tuple, say, is a list.
        return holds(_fields(wanted), live, owned, exact=exact) or holds(
            _fields(orjson.loads(encoded)), live, owned, exact=exact
        )

    def _wants_the_same(
        self, encoded: bytes, live: dict[str, Any], own: Ownership, conflicts: Sequence[FieldConflict]
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
        elif own.created is not None:
            return own.created_by == creator_name(self.field_manager, encoded)
        elif own.applied is None or not conflicts:
            return False
        return not wants_otherwise(_fields(orjson.loads(encoded)), live, own.applied)

    def _settle(self, uid: str, encoded: bytes, after: dict[str, Any] | None = None) -> None:
        """Remember that an object has the wanted fields, and with `after` what our write has stored."""
        state = _UNKNOWN if after is None else _state(after, self._ownership(after))
        remember(self._settled, uid, (hash(encoded), state), SETTLED_OBJECTS)

    # Writing.

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
            whole["metadata"]["resourceVersion"] = "1"
            try:
                raw = await self._send_apply(kind, key, whole, dry_run=dry_run, creates=True)
            except Conflict as error:
                raise AlreadyExists(409, "AlreadyExists", str(error)) from error
        else:
            manager = creator_name(self.field_manager, kept)
            booked: Any = {"manager": manager, "dry_run": dry_run, "fieldValidation": "Strict"}
            raw = await self._send("POST", kind, key, encoded, **booked)
        after = decoded(kind, raw)
        if not dry_run:
            self._settle(after["metadata"]["uid"], kept, after)
        return Applied(decode_at_once(raw, kind, key, parsed=after), None, Outcome.CREATED)

    async def _write(
        self, change: _Change, encoded: bytes, live: dict[str, Any], *, taken_over: bool
    ) -> Written:
        """Apply over an existing object, or repair the apply."""
        try:
            return await self._update(change, taken_over=taken_over)
        except Invalid as refusal:
            # Others may have put items into our lists.
            if not change.force:
                raise
            repaired = await self._repair(change, encoded, live, refusal)
        if change.dry_run:
            return repaired
        # The object is as it is wanted. This writes down that it is ours.
        return (await self._update(change, taken_over=True))[0], repaired[1]

    async def _update(self, change: _Change, *, taken_over: bool) -> Written:
        """Apply over an existing object; with `taken_over`, entries of managedFields join ours first.

        If other managers have set the fields, a second request uses `force`: only a refusal names the
        managers.
        """
        kind, key, body, dry_run = change.kind, change.key, change.body, change.dry_run
        if taken_over:
            found = await self._read_stored(kind, key)
            raw = await self._try(change, decoded(kind, found))
            if dry_run:
                return raw, ()
            await self._take_over(change, found)
        try:
            return await self._send_apply(kind, key, body, force=False, dry_run=dry_run), ()
        except ApplyConflict as conflict:
            if not change.force:
                raise
            return await self._send_apply(kind, key, body, dry_run=dry_run), conflict.conflicts

    async def _try(self, change: _Change, there: dict[str, Any]) -> bytes:
        """Try an apply before entries join ours, so that a refusal changes nothing, not even the record.

        A dry run of the apply itself keeps the fields of the other entries, and may be refused for them: two
        ports of one name, for example. So this tries a patch that removes them. Returns the object that the
        server would store.
        """
        kind, key, version = change.kind, change.key, change.kind.gvk.api_version
        repair = Repair(there, change.body, *self._ownership(there).shares(change.given_up, version))
        try:
            raw = await self._send_apply(kind, key, change.body, dry_run=True)
        except Invalid:
            if not repair.releases:
                raise
        else:
            if not repair.releases:
                return raw
        patch = repair.patch_of({"uid": change.uid})
        return await self._send("PATCH", kind, key, patch, content_type=MERGE_PATCH, dry_run=True)

    async def _take_over(self, change: _Change, found: bytes) -> None:
        """Merge our entries into one apply entry (see `ownership`), before the apply of the change.

        `found` is the object from the server: the cache keeps our own entries only, and the patch needs the
        position among all.
        """
        kind, key = change.kind, change.key
        resource_version, refusal, attempts = None, None, 0
        while attempts < TAKEOVER_ATTEMPTS:
            live = decoded(kind, found)
            own = self._ownership(live)
            translation = own.translation(change.given_up, kind.gvk.api_version)
            patch = translation[1] if translation else own.takeover(change.given_up)
            if patch is None:
                return
            if refusal is not None and live["metadata"].get("resourceVersion") == resource_version:
                raise refusal  # no other client has written in between
            resource_version = live["metadata"].get("resourceVersion")
            try:
                if patch:
                    await self._send("PATCH", kind, key, patch, content_type=JSON_PATCH)
            except Invalid as error:
                refusal, attempts = error, attempts + 1
            else:
                if translation is None:
                    return
                await self._send_apply(kind, key, change.body, manager=translation[0])
            found = await self._read_stored(kind, key)
        raise Conflict(409, "Conflict", f"{kind.gvk.kind} {key} keeps being changed by others")

    async def _repair(
        self, change: _Change, encoded: bytes, live: dict[str, Any], refusal: Invalid
    ) -> Written:
        """Make the changes of a refused apply by a patch, which also removes conflicting items of others.

        Raises the refusal if it has another cause (see `repair`), or the server's answer to a dry run of the
        patch, and remembers that answer for a while. Nothing has been changed then.
        """
        kind, key, uid = change.kind, change.key, change.uid
        candidates, conflict = refused_lists(refusal.details), None
        if not candidates:
            raise refusal
        state = hash((encoded, _content(live)))
        last_state, until, known = self._refused.get(uid, (_UNKNOWN, 0.0, None))
        if known is not None and last_state == state and until > clock.monotonic():
            raise type(known)(known.status, known.reason, known.message, known.details)
        for _ in range(TAKEOVER_ATTEMPTS):
            found = await self._find_stored(kind, key)
            there = None if found is None else decoded(kind, found)
            if there is None or there["metadata"]["uid"] != uid:
                raise refusal
            shared = self._ownership(there).shares(change.given_up, kind.gvk.api_version)
            repairs = (Repair(there, change.body, *shared, lists) for lists in candidates)
            repair = next((each for each in repairs if each.removed), None)
            if repair is None:
                raise refusal
            version = there["metadata"].get("resourceVersion")
            demanded = {"uid": uid, "resourceVersion": version}
            # The next apply takes over the fields recorded under this name.
            manager = creator_name(self.field_manager, encoded)
            booked: Any = {"content_type": MERGE_PATCH, "manager": manager, "replaces": version}
            try:
                raw = await self._send("PATCH", kind, key, repair.patch_of(demanded), dry_run=True, **booked)
                keeps = set[Path]()
                for each in repair.removed[:_MOST_KEPT] if len(repair.removed) > 1 else ():
                    less = Repair(there, change.body, *shared, repair.lists, {*keeps, each})
                    with suppress(Invalid):  # it is in the way
                        patch = less.patch_of(demanded)
                        raw = await self._send("PATCH", kind, key, patch, dry_run=True, **booked)
                        keeps, repair = {*keeps, each}, less
                if not change.dry_run:
                    raw = await self._send("PATCH", kind, key, repair.patch_of(demanded), **booked)
                return raw, repair.conflicts
            except (Invalid, Forbidden, BadRequest) as error:
                refused = state, clock.monotonic() + REFUSED_SECONDS, error
                remember(self._refused, uid, refused, SETTLED_OBJECTS)
                raise
            except Conflict as error:
                conflict = error  # it has changed since, if only in its status
        raise conflict or refusal

    # Requests.

    async def _send_apply(
        self, kind: type[Resource], key: ObjectKey, body: Any, *, force: bool = True, **more: Any
    ) -> bytes:
        """Send a server-side apply; return the object as stored.

        Raises ApplyConflict, and BadRequest for a body that does not fit the schema.
        """
        try:
            return await self._send(
                "PATCH", kind, key, body, content_type=APPLY_PATCH, force=str(force).lower(), **more
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
        body: Any,
        *,
        content_type: str = JSON,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
        replaces: str = "",
        creates: bool = False,
        **query: str,
    ) -> bytes:
        """Write an object, or a subresource of it; return it as stored, which the next cached read shows.

        `body` is JSON, or its value. The write is booked under the client's field manager, or `manager`.
        `replaces` is the resourceVersion that the body demands, if it does; `creates` says that it demands
        that there is no such object. The answer to a dry run does not go to the cache.
        """
        mapping = await self._mapper.resolve(kind.gvk)
        name, new = key.name, ""
        if method == "POST":
            if mapping.namespaced and not key.namespace:
                raise ValueError(f"{kind.gvk} is namespaced: {name!r} needs a metadata.namespace")
            name, new, creates = "", name, True
        try:
            raw = await self._transport.request(
                method,
                mapping.path(key.namespace, name, subresource),
                query={
                    "fieldManager": manager or self.field_manager,
                    **(DRY_RUN if dry_run else {}),
                    **query,
                },
                body=body if isinstance(body, bytes) else orjson.dumps(body),
                content_type=content_type,
                name=new,
            )
        except NotFound as error:
            raise await self._mapper.explain_not_found(error, kind.gvk, subresource) from None
        except BadRequest as error:
            name_nearest(error, kind)
            raise
        if not dry_run:
            # "0" demands nothing
            self._cache.observe_write(kind, raw, before=0 if creates else int(replaces or 0) or None)
        return raw


def _refuse_foreign(
    kind: type[Resource],
    key: ObjectKey,
    live: dict[str, Any],
    own: Ownership,
    owner: Resource,
    *,
    adopt: bool,
) -> bool:
    """Raise OwnedByOther unless the owner is the controller; return True for one without, if `adopt`."""
    metadata = live["metadata"]
    controller = next((each for each in metadata.get("ownerReferences", ()) if each.get("controller")), None)
    if controller is None:
        made_here = own.created is not None or own.applied is not None or own.former
        if adopt and made_here:
            return True
        raise OwnedByOther(kind.gvk.kind, key, None, made_here=made_here)
    if controller.get("uid") != owner.metadata.uid:
        try:
            other = OwnerReference.model_validate(controller)
        except ValidationError:
            raise not_a(f"a {kind.gvk.kind} object") from None
        finalizers = None if "deletionTimestamp" not in metadata else metadata.get("finalizers") or ()
        raise OwnedByOther(kind.gvk.kind, key, other, finalizers=finalizers)
    return False


def _state(live: dict[str, Any], own: Ownership) -> int:
    # Python's own hashes have a random key for each process, so no client can construct collisions.
    return hash((_content(live), orjson.dumps((own.created or own.applied, own.created_by))))


def decoded(kind: type[Resource], raw: bytes) -> dict[str, Any]:
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


def _content(live: dict[str, Any]) -> bytes:
    """Encode the fields of an object that an apply can change, for comparison as a whole."""
    fields = {name: value for name, value in live.items() if name not in ("status", "metadata")}
    fields["metadata"] = {name: live["metadata"].get(name) for name in APPLIED_METADATA}
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def _fields(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an apply whose ownership the server records."""
    fields = {name: value for name, value in wanted.items() if name not in ("apiVersion", "kind", "metadata")}
    metadata = {name: wanted["metadata"][name] for name in APPLIED_METADATA if name in wanted["metadata"]}
    return fields | {"metadata": metadata} if metadata else fields
