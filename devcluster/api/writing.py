"""Creating and changing objects: the steps between a decoded body and the store."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

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
from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Context
from devcluster.names import path_segment
from devcluster.patch import Convert
from devcluster.patch.ownership import record_update
from devcluster.storage.records import Missing, Stored, VersionConflict
from devcluster.storage.store import Store

Object = dict[str, Any]
Change = Callable[[Object | None], Awaitable[Object]]
"""Makes the new object from a copy of the old one, None for a new object."""

ATTEMPTS = 5
GENERATED_NAMES = 8

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_BASE_LENGTH = 63 - _SUFFIX_LENGTH


@dataclasses.dataclass(slots=True)
class Part:
    """The object of a subresource, such as a Scale, as admission sees it; the change fills it in."""

    kind: tuple[str, str, str]
    put: Callable[[Object, Object], None]
    """Write it, as admission left it, into the object."""
    new: Object = dataclasses.field(default_factory=dict)
    old: Object = dataclasses.field(default_factory=dict)


class Written:
    """The result of a write: the object, and its JSON if already encoded."""

    __slots__ = ("created", "data", "obj", "version")

    def __init__(
        self, obj: Object, *, created: bool = False, data: bytes | None = None, version: int = 0
    ) -> None:
        self.obj = obj
        self.created = created
        self.data = data
        self.version = version


class Writer:
    """Writes through strategies, admission, validation and field management into the store."""

    def __init__(self, store: Store, *, clock: Clock, rng: random.Random) -> None:
        self.store = store
        self.clock = clock
        self.rng = rng
        self.admission: Admission | None = None
        self.may_create: Callable[[Call], None] = lambda _: None
        """Raises StatusError if the user may not create the object that an update or apply would create."""

    async def create(
        self, call: Call, obj: Object, options: WriteOptions, *, managed: bool = False
    ) -> Written:
        """Store a new object, which is the caller's to give away.

        `managed`: its managedFields are right already, as those of an applied object are.

        Raises:
            StatusError: it is refused.
        """
        resource, strategy = call.resource, call.resource.strategy
        wipe(obj["metadata"])
        match_namespace(obj["metadata"], call.namespace if resource.namespaced else "")
        generated = bool(obj["metadata"].get("generateName")) and not obj["metadata"].get("name")
        context = self._context(call, options)
        obj = await self._checked(call, obj, None, options, context, managed=managed)
        metadata = obj["metadata"]
        key = call.key_of(metadata["name"])
        if (existing := self.store.get(key)) is not None:
            raise _exists(call, existing, generated=generated)
        version = metadata.get("resourceVersion")
        if version and not options.dry_run and call.request.method not in {"PUT", "PATCH"}:
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        kept = await conversion.to_storage(resource, obj)
        if (existing := self.store.get(key)) is not None:  # the conversion may have taken time
            raise _exists(call, existing, generated=generated)
        strategy.commit(kept, None, context)
        if kept is not obj:
            obj = await conversion.to_request(resource, kept)
        if options.dry_run:
            return Written(obj, created=True)
        kept["metadata"] = in_order(kept["metadata"])
        stored = self.store.create(key, kept)
        return self._written(resource, obj, kept, stored, created=True)

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
        """Replace the object that `call` names by what `change` makes of it, and again after a conflict.

        With `may_create`, an object that does not exist is created. `managed` as in `create`. With `anew`,
        `change` does not look at what there is.

        Raises:
            StatusError: it is refused.
        """
        resource = call.resource
        may_create = may_create or (resource.strategy.create_on_update and not call.subresource)
        attempts = 0
        while True:
            stored = self.store.get(call.key)
            if stored is None:
                if not may_create:
                    raise not_found(resource.group, resource.plural, call.name)
                return await self._create_named(call, await change(None), options, managed=managed)
            old = await conversion.read(resource, stored)
            obj = await change({} if anew else await conversion.read(resource, stored))
            try:
                return await self._update(call, obj, old, stored, options, managed=managed, part=part)
            except VersionConflict:
                attempts += 1
                if attempts >= ATTEMPTS:
                    raise conflict(resource.group, resource.plural, call.name) from None
            except Missing:
                continue

    async def _create_named(
        self, call: Call, obj: Object, options: WriteOptions, *, managed: bool
    ) -> Written:
        if (uid := obj["metadata"].get("uid")) and not call.patches:
            raise self._uid_conflict(call, uid, "")
        if uid:
            raise conflict(
                call.resource.group,
                call.resource.plural,
                call.name,
                f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
            )
        check_name(call, obj)
        self.may_create(call)
        return await self.create(call, obj, options, managed=managed)

    async def _update(
        self,
        call: Call,
        obj: Object,
        old: Object,
        stored: Stored,
        options: WriteOptions,
        *,
        managed: bool,
        part: Part | None,
    ) -> Written:
        resource, strategy = call.resource, call.resource.strategy
        metadata, before = obj["metadata"], old["metadata"]
        match_namespace(metadata, call.namespace if resource.namespaced else "")
        check_name(call, obj)
        if not call.patches:  # a patch's UID is checked like any immutable field
            self._check_uid(call, metadata, stored)
        self._check_version(call, metadata, stored)
        context = self._context(call, options)
        obj = await self._checked(call, obj, old, options, context, managed=managed, part=part)
        metadata = obj["metadata"]
        kept = await conversion.to_storage(resource, obj)
        shown = obj if kept is obj else await conversion.to_request(resource, kept)
        expected = stored.version
        if last_finalizer_gone(metadata, before) and not strategy.holds(obj):
            return self._finish_deletion(call, obj, expected, options, context)
        now = self.store.get(call.key)
        if now is None:
            raise Missing
        if now.version != expected:
            raise VersionConflict(now.version)
        strategy.commit(kept, old if kept is obj else stored.decode(), context)
        if options.dry_run:
            return Written(shown)
        kept["metadata"] = in_order(kept["metadata"])
        written = self.store.update(call.key, kept, expected=expected)
        return self._written(resource, shown, kept, written)

    async def _checked(
        self,
        call: Call,
        obj: Object,
        old: Object | None,
        options: WriteOptions,
        context: Context,
        *,
        managed: bool,
        part: Part | None = None,
    ) -> Object:
        """Take a new or changed object through all steps before the store; `old` is None for a new one.

        Raises:
            StatusError: it is refused.
        """
        resource, strategy = call.resource, call.resource.strategy
        self._dedup(call, obj["metadata"], after=False)
        self._default(resource, obj, part, managed=managed)
        if not managed:
            await self._record(call, obj, old, options, context)
        info = self._info(call, "CREATE" if old is None else "UPDATE", obj, old, options)
        if info is not None:
            obj = await self._mutate(call, info) if part is None else await self._mutate_part(part, info, obj)
        self._prepare(call, obj, old, context)
        if info is not None:
            self._default(resource, obj, part, managed=managed)
        if old is not None:
            restore(obj["metadata"], old["metadata"])
        if errors := self._errors(call, obj, old, context):
            raise invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), errors)
        if not call.subresource:
            for warning in strategy.warnings(obj, old):
                call.warn(warning)
        await self._settle(info, resource, obj, part, managed=managed)
        return obj

    def _finish_deletion(
        self, call: Call, obj: Object, expected: int, options: WriteOptions, context: Context
    ) -> Written:
        """Remove an object under deletion after its last finalizer is gone."""
        version = expected
        if not options.dry_run:
            gone = self.store.delete(call.key, expected=expected)
            version = gone.version
            call.resource.strategy.released(gone.decode(), context)
        return Written(obj, version=version)

    def _errors(self, call: Call, obj: Object, old: Object | None, context: Context) -> list[FieldError]:
        resource, metadata = call.resource, obj["metadata"]
        if old is None:
            errors = validate_metadata(
                metadata,
                namespaced=resource.namespaced,
                name_rule=resource.strategy.validate_name,
                built_in=not resource.custom,
            )
            return errors + resource.strategy.validate_create(obj, context)
        before = old["metadata"]
        changed = validate_metadata_update(metadata, before)
        # The real server checks the change in general, and each kind checks again: causes occur twice.
        errors = validate_metadata(
            metadata, namespaced=resource.namespaced, name_rule=path_segment, before=before
        )
        errors += changed + changed
        if call.subresource == "status":
            return errors + resource.strategy.validate_status_update(obj, old, context)
        return errors + resource.strategy.validate_update(obj, old, context)

    def _context(self, call: Call, options: WriteOptions) -> Context:
        return Context(
            store=self.store,
            now=self.clock.timestamp(),
            user=call.user,
            subresource=call.subresource,
            dry_run=options.dry_run,
        )

    async def _record(
        self, call: Call, obj: Object, old: Object | None, options: WriteOptions, context: Context
    ) -> None:
        metadata = obj["metadata"]

        def record(convert: Convert) -> None:
            obj["metadata"] = dict(metadata)
            record_update(
                obj,
                old,
                schema=call.resource.schema,
                manager=manager_of(options, call.user_agent),
                subresource=call.subresource,
                api_version=call.resource.api_version,
                now=context.now,
                reset=reset_fields(call.resource, call.subresource),
                convert=convert,
            )

        await with_versions(call.resource, record)

    async def record_new(self, call: Call, obj: Object, options: WriteOptions) -> None:
        """Set the managedFields of an object that is answered without being stored."""
        await self._record(call, obj, None, options, self._context(call, options))

    async def admit(
        self,
        call: Call,
        obj: Object,
        kind: tuple[str, str, str],
        *,
        operation: str = "CREATE",
        options: Object | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Pass an object for a subresource, which is not stored, through admission.

        Raises:
            StatusError: admission denies it.
        """
        info = AdmissionInfo(
            operation=operation,
            resource=call.resource,
            subresource=call.subresource,
            kind=kind,
            namespace=call.namespace,
            name=call.name or obj["metadata"].get("name", ""),
            obj=obj,
            old=None,
            options=options,
            dry_run=dry_run,
            user=call.user,
            warnings=call.warnings,
        )
        if self.admission is not None and self.admission.handles(info):
            info.obj = await self.admission.mutate(info) or obj
            await self.admission.validate(info)
        assert info.obj is not None
        return info.obj

    def _free_name(self, call: Call, base: str) -> str:
        """Generate a name from `base`, a free one unless several attempts find none."""
        name = ""
        for _ in range(GENERATED_NAMES):
            name = base[:_BASE_LENGTH] + "".join(self.rng.choices(_SUFFIX, k=_SUFFIX_LENGTH))
            if self.store.get(call.key_of(name)) is None:
                break
        return name

    def _info(
        self, call: Call, operation: str, obj: Object, old: Object | None, options: WriteOptions
    ) -> AdmissionInfo | None:
        """Build the input of admission; None when neither plugins nor webhooks need it."""
        if self.admission is None:
            return None
        resource = call.resource
        info = AdmissionInfo(
            operation=operation,
            resource=resource,
            subresource=call.subresource,
            kind=(resource.group, resource.version, resource.kind),
            namespace=call.namespace
            or (obj["metadata"].get("name", "") if resource.name == "namespaces" else ""),
            name=call.name or obj["metadata"].get("name", ""),
            obj=obj,
            old=old,
            options=None,
            dry_run=options.dry_run,
            user=call.user,
            warnings=call.warnings,
        )
        if not self.admission.handles(info):
            return None
        info.options = options.to_object("CreateOptions" if operation == "CREATE" else "UpdateOptions")
        return info

    async def _mutate(self, call: Call, info: AdmissionInfo) -> Object:
        assert self.admission is not None
        obj = await self.admission.mutate(info)
        assert obj is not None
        self._dedup(call, obj["metadata"], after=True)
        return obj

    async def _mutate_part(self, part: Part, info: AdmissionInfo, obj: Object) -> Object:
        assert self.admission is not None
        info.kind, info.obj, info.old = part.kind, part.new, part.old
        part.new = await self.admission.mutate(info) or part.new
        part.put(obj, part.new)
        return obj

    async def _settle(
        self,
        info: AdmissionInfo | None,
        resource: Resource,
        obj: Object,
        part: Part | None = None,
        *,
        managed: bool,
    ) -> None:
        """Pass a checked object through validating admission, and drop what is not to be stored."""
        if info is not None:
            assert self.admission is not None
            info.obj = obj if part is None else part.new
            await self.admission.validate(info)
            self._prune(resource, obj)
        if managed:
            self._default(resource, obj, part)

    @staticmethod
    def _default(resource: Resource, obj: Object, part: Part | None, *, managed: bool = False) -> None:
        """Fill in what was left out; a write of the scale of a custom object does not do that."""
        if part is None or not resource.custom:
            (resource.strategy.default_applied if managed else resource.strategy.default)(obj)

    @staticmethod
    def _prune(resource: Resource, obj: Object) -> None:
        """Drop what webhooks have added to a custom object that its schema does not know."""
        if resource.custom_versions is not None:
            resource.custom_versions.prune(obj)

    def _check_uid(self, call: Call, metadata: Object, stored: Stored) -> None:
        uid = metadata.get("uid")
        if uid and uid != stored.uid:
            raise self._uid_conflict(call, uid, stored.uid)

    @staticmethod
    def _uid_conflict(call: Call, wanted: str, found: str) -> StatusError:
        return conflict(
            call.resource.group,
            call.resource.plural,
            call.name,
            f"StorageError: invalid object, Code: 4, Key: {storage_path(call.key)}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: "
            f"{found}",
        )

    def _check_version(self, call: Call, metadata: Object, stored: Stored) -> None:
        resource, version = call.resource, metadata.get("resourceVersion", "")
        if not version or version == "0":
            if not resource.strategy.unconditional_update:
                wrong = field_invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise invalid(resource.group, resource.plural, call.name, [wrong])
            metadata["resourceVersion"] = str(stored.version)
        elif version != str(stored.version):
            if not version.isdigit():
                shown = version.replace('"', '\\"')
                raise StatusError(
                    500,
                    "",
                    f'strconv.ParseUint: parsing "{shown}": invalid syntax',
                )
            raise conflict(resource.group, resource.plural, call.name)

    def _prepare(self, call: Call, obj: Object, old: Object | None, context: Context) -> None:
        strategy, metadata = call.resource.strategy, obj["metadata"]
        if old is None:
            metadata["uid"] = unique_id(self.rng)
            metadata["creationTimestamp"] = context.now
            if metadata.get("generateName") and not metadata.get("name"):
                metadata["name"] = self._free_name(call, metadata["generateName"])
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

    @staticmethod
    def _dedup(call: Call, metadata: Object, *, after: bool) -> None:
        if dropped := dedup_owner_references(metadata):
            moment = " after mutating admission happens" if after else ""
            call.warn(
                ".metadata.ownerReferences contains duplicate entries"
                f"{moment}; API server dedups owner references in 1.20+, and may reject such requests as "
                f"early as 1.24; please fix your requests; duplicate UID(s) observed: {', '.join(dropped)}"
            )

    @staticmethod
    def _written(
        resource: Resource, obj: Object, kept: Object, stored: Stored, *, created: bool = False
    ) -> Written:
        if kept is obj:
            return Written(obj, created=created, data=stored.data, version=stored.version)
        obj["metadata"]["resourceVersion"] = str(stored.version)
        obj["metadata"] = in_order(obj["metadata"])
        if resource.custom:
            resource.converted.put(stored, orjson.dumps(obj))
        return Written(obj, created=created, version=stored.version)


def check_name(call: Call, obj: Object) -> None:
    """Raise StatusError, 400, when the object's name differs from the name in the path."""
    name = obj["metadata"].get("name", "")
    if not name:
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def _exists(call: Call, existing: Stored, *, generated: bool = False) -> StatusError:
    error = already_exists(call.resource.group, call.resource.plural, existing.key.name)
    if generated:
        text = "the server was not able to generate a unique name for the object"
        return StatusError(
            409, "AlreadyExists", f"{error.message}, {text}", details=error.details, retry_after=1
        )
    if existing.decode()["metadata"].get("deletionTimestamp"):
        error.message = f"object is being deleted: {error.message}"
    return error


def reset_fields(resource: Resource, subresource: str) -> Sequence[str | tuple[str, ...]]:
    """Return the fields that a write of this subresource neither changes nor owns."""
    if not subresource:
        return resource.strategy.status_fields
    return resource.strategy.status_reset if subresource == "status" else ()
