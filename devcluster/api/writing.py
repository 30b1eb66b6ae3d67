"""Handler of creates and updates: the steps between a decoded body and the store."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import orjson

from devcluster.api import conversion
from devcluster.api.conversion import with_versions
from devcluster.api.interfaces import Admission, AdmissionInfo, Call
from devcluster.api.kept_metadata import in_order, last_finalizer_gone, restore, storage_path, unique_id
from devcluster.api.options import WriteOptions, manager_of
from devcluster.clock import Clock
from devcluster.errors import (
    FieldError,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    field_invalid,
    forbidden,
    invalid,
    not_found,
)
from devcluster.kinds.metadata import (
    dedup_owner_references,
    match_namespace,
    validate_metadata,
    validate_metadata_update,
    wipe,
)
from devcluster.kinds.strategy import Context
from devcluster.names import path_segment
from devcluster.patch import Convert, Write, record_update
from devcluster.storage.records import Key, Missing, Stored, VersionConflict
from devcluster.storage.store import Store

Object = dict[str, Any]
Change = Callable[[Object | None], Awaitable[Object]]
"""A function that returns the new object, given a copy of the old one, or None for a new object."""

ATTEMPTS = 5
GENERATED_NAMES = 8

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_BASE_LENGTH = 63 - _SUFFIX_LENGTH


@dataclasses.dataclass(slots=True)
class Part:
    """Object of a subresource, such as a Scale; admission gets it instead of the stored parent object.

    The function `change` of `Writer.update` computes the new parent object, and sets `new` and `old`.
    """

    kind: tuple[str, str, str]
    put: Callable[[Object, Object], None]
    """Writes the subresource's object, after admission, into the parent object."""
    new: Object = dataclasses.field(default_factory=dict)
    old: Object = dataclasses.field(default_factory=dict)


class Written(NamedTuple):
    """Result of a write: the object, and its JSON if it is already encoded."""

    obj: Object
    created: bool = False
    data: bytes | None = None
    version: int = 0


class Writer:
    """Writer of objects to the store, after defaults, admission, validation and field management."""

    def __init__(self, store: Store, *, clock: Clock, rng: random.Random) -> None:
        self.store = store
        self.clock = clock
        self.rng = rng
        self.admission: Admission | None = None
        self.may_create: Callable[[Call], None] = lambda _: None
        """A check that raises StatusError if the user may not create the object of an update or apply."""

    async def create(
        self, call: Call, obj: Object, options: WriteOptions, *, managed: bool = False
    ) -> Written:
        """Store a new object; the caller must not use `obj` afterwards.

        `managed` means that the managedFields of `obj` are already correct, for example after an apply.

        Raises:
            StatusError: the write is refused.
        """
        wipe(obj["metadata"])
        match_namespace(obj["metadata"], call.namespace if call.resource.namespaced else "")
        return await _Attempt(self, call, options, managed=managed).run(obj)

    async def update(
        self,
        call: Call,
        change: Change,
        options: WriteOptions,
        *,
        may_create: bool = False,
        managed: bool = False,
        part: Part | None = None,
        anew: bool = False,
    ) -> Written:
        """Replace the object that `call` names by the result of `change`; retry after a conflict.

        With `may_create`, a missing object is created. `managed` as in `create`. `part` is the Scale of a
        write to the scale subresource. With `anew`, `change` gets an empty object instead of the current one.

        Raises:
            StatusError: the write is refused.
        """
        resource = call.resource
        may_create = may_create or (resource.strategy.create_on_update and not call.subresource)
        attempts = 0
        while True:
            stored = self.store.get(call.key)
            if stored is None:
                if not may_create:
                    raise not_found(resource.group, resource.plural, call.name)
                obj = await change(None)
                self._check_creation(call, obj)
                return await self.create(call, obj, options, managed=managed)
            old = await conversion.read(resource, stored)
            obj = await change({} if anew else await conversion.read(resource, stored))
            attempt = _Attempt(self, call, options, managed=managed, part=part, stored=stored)
            try:
                attempt.check_preconditions(obj, stored)
                return await attempt.run(obj, old)
            except VersionConflict:
                attempts += 1
                if attempts >= ATTEMPTS:
                    raise conflict(resource.group, resource.plural, call.name) from None
            except Missing:
                continue

    def _check_creation(self, call: Call, obj: Object) -> None:
        """Raise StatusError if an update or apply of a missing object must not create it."""
        if (uid := obj["metadata"].get("uid")) and not call.patches:
            raise _uid_conflict(call, uid, "")
        if uid:
            raise conflict(
                call.resource.group,
                call.resource.plural,
                call.name,
                f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
            )
        check_name(call, obj)
        self.may_create(call)

    async def record_new(self, call: Call, obj: Object, options: WriteOptions) -> None:
        """Set the managedFields of an object that is returned but not stored."""
        await _Attempt(self, call, options).record(obj, None)

    async def admit(
        self,
        call: Call,
        obj: Object,
        kind: tuple[str, str, str],
        *,
        operation: str = "CREATE",
        options: WriteOptions | None = None,
    ) -> Object:
        """Pass an object of a subresource, such as an Eviction, through admission; it is not stored.

        Raises:
            StatusError: admission denies the object.
        """
        info = AdmissionInfo.of(
            call,
            operation,
            obj,
            kind=kind,
            options=None if options is None else options.to_object("CreateOptions"),
            dry_run=options is not None and options.dry_run,
        )
        if self.admission is not None and self.admission.handles(info):
            info.obj = await self.admission.mutate(info) or obj
            await self.admission.validate(info)
        assert info.obj is not None
        return info.obj


class _Attempt:
    """An attempt to create or update an object; `stored` is the current object, or None for a new one."""

    def __init__(
        self,
        writer: Writer,
        call: Call,
        options: WriteOptions,
        *,
        managed: bool = False,
        part: Part | None = None,
        stored: Stored | None = None,
    ) -> None:
        self._store = writer.store
        self._rng = writer.rng
        self._admission = writer.admission
        self._call = call
        self._options = options
        self._managed = managed
        self._part = part
        self._stored = stored
        self._resource = call.resource
        self._strategy = call.resource.strategy
        self._context = Context(
            store=writer.store,
            now=writer.clock.timestamp(),
            user=call.user,
            subresource=call.subresource,
            dry_run=options.dry_run,
        )

    def check_preconditions(self, obj: Object, stored: Stored) -> None:
        """Refuse an update with the wrong uid or an old resourceVersion; set a missing resourceVersion."""
        call, metadata = self._call, obj["metadata"]
        resource, version = call.resource, metadata.get("resourceVersion", "")
        match_namespace(metadata, call.namespace if resource.namespaced else "")
        check_name(call, obj)
        uid = metadata.get("uid")
        if uid and uid != stored.uid and not call.patches:  # patches: like any immutable field
            raise _uid_conflict(call, uid, stored.uid)
        if not version or version == "0":
            if not resource.strategy.unconditional_update:
                wrong = field_invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise invalid(resource.group, resource.plural, call.name, [wrong])
            metadata["resourceVersion"] = str(stored.version)
        elif version != str(stored.version):
            if not version.isdigit():
                shown = version.replace('"', '\\"')
                raise StatusError(500, "", f'strconv.ParseUint: parsing "{shown}": invalid syntax')
            raise conflict(resource.group, resource.plural, call.name)

    async def run(self, obj: Object, old: Object | None = None) -> Written:
        """Run all steps from defaults to the store; `old` is None for a new object.

        Raises:
            StatusError: the write is refused.
            VersionConflict: another write came first.
            Missing: the object of an update no longer exists.
        """
        call, resource, strategy, stored = self._call, self._resource, self._strategy, self._stored
        generated = bool(obj["metadata"].get("generateName")) and not obj["metadata"].get("name")
        obj, info = await self._checked(obj, old)
        metadata = obj["metadata"]
        key = call.key_of(metadata["name"])
        if old is None:
            self._check_new(key, metadata, generated=generated)
        kept = await conversion.to_storage(resource, obj)
        shown = obj if kept is obj else await conversion.to_request(resource, kept)
        ends = old is not None and last_finalizer_gone(metadata, old["metadata"]) and not strategy.holds(obj)
        if ends and stored is not None:
            return self._finish_deletion(obj, stored)
        # The conversions may have taken time; no other task runs between these checks and the write.
        before: Object | None = None
        if stored is None:
            self._check_absent(key, generated=generated)
        elif (now := self._store.get(key)) is None:
            raise Missing
        elif now.version != stored.version:
            raise VersionConflict
        else:
            before = old if kept is obj else stored.decode()
        if kept is not obj and info is not None and self._admission is not None:
            self._admission.check_quotas(info)
        strategy.commit(kept, before, self._context)
        if self._options.dry_run:
            return Written(shown, created=stored is None)
        kept["metadata"] = in_order(kept["metadata"])
        if stored is None:
            written = self._store.create(key, kept)
        else:
            written = self._store.update(key, kept, expected=stored.version)
        if kept is obj:
            return Written(obj, created=stored is None, data=written.data, version=written.version)
        shown["metadata"]["resourceVersion"] = str(written.version)
        shown["metadata"] = in_order(shown["metadata"])
        if resource.custom:
            resource.converted.put(written, orjson.dumps(shown))
        return Written(shown, created=stored is None, version=written.version)

    async def _checked(self, obj: Object, old: Object | None) -> tuple[Object, AdmissionInfo | None]:
        """Take an object through defaults, admission and validation; return it with admission's input."""
        resource, part = self._resource, self._part
        self._dedup(obj["metadata"])
        self._default(obj, managed=self._managed)
        if not self._managed:
            await self.record(obj, old)
        info = self._info(obj, old)
        if info is not None and self._admission is not None:
            if part is None:
                obj = await self._admission.mutate(info) or obj
                self._dedup(obj["metadata"], moment=" after mutating admission happens")
            else:
                info.kind, info.obj, info.old = part.kind, part.new, part.old
                part.new = await self._admission.mutate(info) or part.new
                part.put(obj, part.new)
        self._prepare(obj, old)
        if info is not None:
            self._default(obj, managed=self._managed)
        if old is not None:
            restore(obj["metadata"], old["metadata"])
        await self._validate(obj, old)
        if info is not None and self._admission is not None:
            info.obj = obj if part is None else part.new
            await self._admission.validate(info)
            if resource.custom_versions is not None:  # drop unknown fields from webhooks
                resource.custom_versions.prune(obj)
        if self._managed:
            self._default(obj)
        return obj, info

    async def _validate(self, obj: Object, old: Object | None) -> None:
        """Validate by the rules of the kind, and add their warnings; raise StatusError, 422, for errors."""
        call, resource, strategy = self._call, self._resource, self._strategy
        if strategy.slow_checks:
            errors = await asyncio.to_thread(self._errors, obj, old)
        else:
            errors = self._errors(obj, old)
        if errors:
            raise invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), errors)
        if not call.subresource:
            for warning in strategy.warnings(obj, old):
                call.warn(warning)

    async def record(self, obj: Object, old: Object | None) -> None:
        """Set the managedFields of a new or changed object."""
        call, metadata = self._call, obj["metadata"]

        def record(convert: Convert) -> None:
            obj["metadata"] = dict(metadata)
            record_update(obj, old, field_write(call, self._options, self._context.now, convert))

        await with_versions(call.resource, record)

    def _info(self, obj: Object, old: Object | None) -> AdmissionInfo | None:
        """Build the input of admission; return None if no plugin and no webhook needs it."""
        if self._admission is None:
            return None
        operation, options = ("CREATE" if old is None else "UPDATE"), self._options
        info = AdmissionInfo.of(self._call, operation, obj, old=old, dry_run=options.dry_run)
        if not self._admission.handles(info):
            return None
        info.options = options.to_object("CreateOptions" if old is None else "UpdateOptions")
        return info

    def _default(self, obj: Object, *, managed: bool = False) -> None:
        """Fill in defaults, except in a custom object whose scale subresource is written."""
        if self._part is None or not self._resource.custom:
            (self._strategy.default_applied if managed else self._strategy.default)(obj)

    def _prepare(self, obj: Object, old: Object | None) -> None:
        strategy, context, metadata = self._strategy, self._context, obj["metadata"]
        if old is None:
            metadata["uid"] = unique_id(self._rng)
            metadata["creationTimestamp"] = context.now
            if metadata.get("generateName") and not metadata.get("name"):
                metadata["name"] = self._free_name(metadata["generateName"])
            if self._resource.closing:
                why = "create not allowed while custom resource definition is terminating"
                raise forbidden(self._resource.group, self._resource.plural, metadata.get("name") or "", why)
            strategy.prepare_create(obj, context)
            return
        if generation := old["metadata"].get("generation"):
            metadata["generation"] = generation
        else:
            metadata.pop("generation", None)
        if context.subresource == "status":
            strategy.prepare_status_update(obj, old, context)
        else:
            strategy.prepare_update(obj, old, context)

    def _free_name(self, base: str) -> str:
        """Generate a name from `base` that is free; after several attempts, return one that may be in use."""
        name = ""
        for _ in range(GENERATED_NAMES):
            name = base[:_BASE_LENGTH] + "".join(self._rng.choices(_SUFFIX, k=_SUFFIX_LENGTH))
            if self._store.get(self._call.key_of(name)) is None:
                break
        return name

    def _errors(self, obj: Object, old: Object | None) -> list[FieldError]:
        resource, strategy, context = self._resource, self._strategy, self._context
        metadata = obj["metadata"]
        if old is None:
            errors = validate_metadata(
                metadata,
                namespaced=resource.namespaced,
                name_rule=strategy.validate_name,
                built_in=not resource.custom,
            )
            return errors + strategy.validate_create(obj, context)
        before = old["metadata"]
        changed = validate_metadata_update(metadata, before)
        # The real server checks the change twice, in general and for the kind, so causes are reported twice.
        errors = validate_metadata(
            metadata, namespaced=resource.namespaced, name_rule=path_segment, before=before
        )
        errors += changed + changed
        if context.subresource == "status":
            return errors + strategy.validate_status_update(obj, old, context)
        return errors + strategy.validate_update(obj, old, context)

    def _dedup(self, metadata: Object, moment: str = "") -> None:
        if dropped := dedup_owner_references(metadata):
            self._call.warn(
                ".metadata.ownerReferences contains duplicate entries"
                f"{moment}; API server dedups owner references in 1.20+, and may reject such requests as "
                f"early as 1.24; please fix your requests; duplicate UID(s) observed: {', '.join(dropped)}"
            )

    def _check_new(self, key: Key, metadata: Object, *, generated: bool) -> None:
        self._check_absent(key, generated=generated)
        written_anew = self._call.request.method not in {"PUT", "PATCH"}
        if metadata.get("resourceVersion") and not self._options.dry_run and written_anew:
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")

    def _check_absent(self, key: Key, *, generated: bool) -> None:
        """Raise StatusError, 409, if an object with that name exists."""
        existing = self._store.get(key)
        if existing is None:
            return
        error = already_exists(self._resource.group, self._resource.plural, key.name)
        if generated:
            text = "the server was not able to generate a unique name for the object"
            raise StatusError(
                409, "AlreadyExists", f"{error.message}, {text}", details=error.details, retry_after=1
            )
        if existing.decode()["metadata"].get("deletionTimestamp"):
            error.message = f"object is being deleted: {error.message}"
        raise error

    def _finish_deletion(self, obj: Object, stored: Stored) -> Written:
        """Remove an object under deletion after its last finalizer is gone."""
        version = stored.version
        if not self._options.dry_run:
            gone = self._store.delete(stored.key, expected=version)
            version = gone.version
            self._strategy.released(gone.decode(), self._context)
        return Written(obj, version=version)


def _uid_conflict(call: Call, wanted: str, found: str) -> StatusError:
    return conflict(
        call.resource.group,
        call.resource.plural,
        call.name,
        f"StorageError: invalid object, Code: 4, Key: {storage_path(call.key)}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: "
        f"{found}",
    )


def check_name(call: Call, obj: Object) -> None:
    """Raise StatusError, 400, when the object's name differs from the name in the path."""
    name = obj["metadata"].get("name", "")
    if not name:
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def field_write(call: Call, options: WriteOptions, now: str, convert: Convert | None = None) -> Write:
    """Build the description of a write for field management."""
    resource, subresource = call.resource, call.subresource
    reset: Sequence[str | tuple[str, ...]] = ()
    if not subresource:
        reset = resource.strategy.status_fields
    elif subresource == "status":
        reset = resource.strategy.status_reset
    return Write(
        schema=resource.schema,
        api_version=resource.api_version,
        manager=manager_of(options, call.user_agent),
        now=now,
        subresource=subresource,
        reset=reset,
        convert=convert,
    )
