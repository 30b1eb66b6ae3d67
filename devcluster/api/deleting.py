"""Deletion of single objects, and the options of all deletions."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

from devcluster.api import conversion
from devcluster.api.bodies import parse_document
from devcluster.api.interfaces import AdmissionInfo, Call
from devcluster.api.options import DeleteOptions
from devcluster.api.writing import ATTEMPTS, Writer
from devcluster.errors import StatusError, bad_request, conflict, not_found
from devcluster.kinds.strategy import Context, Strategy
from devcluster.storage.records import Missing, Stored, VersionConflict
from devcluster.types.codec import DecodeError
from devcluster.types.decode import convert

_NAME = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_CANNOT = 'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: '


def decode_delete_options(call: Call) -> DeleteOptions:
    """Read the options of a delete; raise StatusError if they are invalid.

    For some kinds, add a warning if the options have no propagation policy.
    """
    options = _decoded(call) if call.request.body else DeleteOptions.of_query(call.request.query)
    if options.propagation is None and options.orphan is None:
        call.warn(call.resource.strategy.delete_warning)
    return options


def _decoded(call: Call) -> DeleteOptions:
    try:
        document, _ = parse_document(call, None, bad_request)
    except StatusError as error:
        error.message = error.message.removeprefix(_CANNOT)
        raise
    if isinstance(document, dict) and (kind := document.get("kind", "DeleteOptions")) != "DeleteOptions":
        version = document.get("apiVersion", "meta.k8s.io/v1")
        raise bad_request(
            f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )
    try:
        options, _ = convert(document, _NAME)
    except DecodeError as error:
        raise bad_request(str(error)) from None
    return DeleteOptions.of(options)


Object = dict[str, Any]

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_GRACE = "deletionGracePeriodSeconds"


class Deleted(NamedTuple):
    """Result of a delete: the object in its last or current state, and whether the object was removed."""

    obj: Object
    version: int
    gone: bool


class Deleter:
    """Handler of delete requests; it applies admission and the rules of the kind."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._store = writer.store

    async def delete(self, call: Call, options: DeleteOptions, *, admitted: bool = False) -> Deleted:
        """Delete the object that `call` names, or set its deletionTimestamp.

        `admitted` skips admission, because admission has already allowed the eviction that causes this
        deletion.

        Raises:
            StatusError: the deletion is refused.
        """
        resource = call.resource
        for _ in range(ATTEMPTS):
            stored = self._store.get(call.key)
            if stored is None:
                raise not_found(resource.group, resource.plural, call.name)
            self._check_preconditions(call, options, stored)
            if conversion.rewritten(resource, stored) is None:
                # An object that cannot be converted cannot be deleted, for example while its webhook is down.
                await conversion.read(resource, stored, anew=True)
            if not admitted:
                await self._admit(call, options, stored)
            current = self._store.get(call.key)
            if current is not stored:
                continue
            try:
                done = self._delete(call, options, stored)
            except (VersionConflict, Missing):
                continue
            return done._replace(obj=await conversion.to_request(resource, done.obj))
        raise conflict(resource.group, resource.plural, call.name)

    def _delete(self, call: Call, options: DeleteOptions, stored: Stored) -> Deleted:
        """Delete the object or set its deletionTimestamp; the result has the object in its stored version."""
        obj = conversion.decoded(call.resource, stored)
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata and call.resource.strategy.prepare_delete(
            obj, self._context(call, options)
        ):
            return self._keep(call, options, stored, obj)
        graceful, pending = self._grace(call, obj, options)
        if pending:
            return Deleted(obj, stored.version, False)
        strategy = call.resource.strategy
        _set_finalizers(metadata, options, strategy)
        if strategy.holds(obj):
            if "deletionTimestamp" not in metadata:
                metadata["deletionTimestamp"] = self._writer.clock.timestamp()
                strategy.mark_deleted(obj)
            graceful = True
        elif not graceful and metadata.get("finalizers"):
            if "deletionTimestamp" not in metadata:
                if metadata.get("generation"):
                    metadata["generation"] += 1
                metadata["deletionTimestamp"] = self._writer.clock.timestamp()
            metadata[_GRACE] = 0
            graceful = True
        is_last = not metadata.get("finalizers") and not metadata.get(_GRACE) and not strategy.holds(obj)
        if not graceful or is_last:
            return self._remove(call, options, stored)
        return self._keep(call, options, stored, obj)

    def _keep(self, call: Call, options: DeleteOptions, stored: Stored, obj: Object) -> Deleted:
        if not options.dry_run:
            stored = self._store.update(call.key, obj, expected=stored.version)
        return Deleted(obj, stored.version, False)

    def _remove(self, call: Call, options: DeleteOptions, stored: Stored) -> Deleted:
        if options.dry_run:
            return Deleted(stored.decode(), stored.version, True)
        final = self._store.delete(call.key, expected=stored.version)
        obj = final.decode()
        call.resource.strategy.released(obj, self._context(call, options))
        return Deleted(obj, final.version, True)

    def _grace(self, call: Call, obj: Object, options: DeleteOptions) -> tuple[bool, bool]:
        """Set the object's grace period and deletion time if the deletion is graceful.

        Returns:
            whether a graceful deletion starts or gets shorter, and whether a former one continues unchanged.
        """
        strategy, metadata = call.resource.strategy, obj["metadata"]
        now = self._writer.clock.now().replace(microsecond=0)
        if "deletionTimestamp" in metadata:
            left = metadata.get(_GRACE)
            if not left or strategy.grace_period(obj, options.grace) is None:
                return False, False
            if options.grace is None or options.grace >= left:
                return False, True
            due = datetime.datetime.strptime(metadata["deletionTimestamp"], _FORMAT).replace(
                tzinfo=datetime.UTC
            )
            due += datetime.timedelta(seconds=options.grace - left)
            period = options.grace
            if due < now:
                due, period = now, min(period, 1)
            metadata["deletionTimestamp"] = due.strftime(_FORMAT)
            metadata[_GRACE] = period
            return True, False
        period_or_none = strategy.grace_period(obj, options.grace)
        if period_or_none is None:
            return False, False
        metadata["deletionTimestamp"] = (now + datetime.timedelta(seconds=period_or_none)).strftime(_FORMAT)
        metadata[_GRACE] = period_or_none
        if metadata.get("generation"):
            metadata["generation"] += 1
        return True, False

    def _context(self, call: Call, options: DeleteOptions) -> Context:
        return Context(
            store=self._store, now=self._writer.clock.timestamp(), user=call.user, dry_run=options.dry_run
        )

    async def _admit(self, call: Call, options: DeleteOptions, stored: Stored) -> None:
        admission = self._writer.admission
        if admission is None:
            return
        info = AdmissionInfo.of(call, "DELETE", None, options=options.to_object(), dry_run=options.dry_run)
        if not admission.handles(info):
            return
        info.old = await conversion.read(call.resource, stored)
        await admission.mutate(info)
        await admission.validate(info)

    @staticmethod
    def _check_preconditions(call: Call, options: DeleteOptions, stored: Stored) -> None:
        resource = call.resource

        def refuse(detail: str) -> StatusError:
            return conflict(resource.group, resource.kind, call.name, detail)

        if options.uid is not None and options.uid != stored.uid:
            raise refuse(
                f"the UID in the precondition ({options.uid}) does not match the UID in record "
                f"({stored.uid}). The object might have been deleted and then recreated"
            )
        if options.version is not None and options.version != str(stored.version):
            raise refuse(
                f"the ResourceVersion in the precondition ({options.version}) does not match the "
                f"ResourceVersion in record ({stored.version}). The object might have been modified"
            )


def _set_finalizers(metadata: Object, options: DeleteOptions, strategy: Strategy) -> None:
    """Set the finalizers that make the garbage collector follow the propagation policy."""
    old = metadata.get("finalizers") or []
    wanted = ""
    if not strategy.supports_propagation:
        pass
    elif options.orphan is not None:
        otherwise = _FOREGROUND if strategy.waits_unless_orphaned else ""
        wanted = _ORPHAN if options.orphan else otherwise
    elif options.propagation is not None:
        wanted = {"Orphan": _ORPHAN, "Foreground": _FOREGROUND}.get(options.propagation, "")
    else:
        default = _ORPHAN if strategy.orphans_by_default else ""
        wanted = next((each for each in old if each in {_ORPHAN, _FOREGROUND}), default)
    new = [each for each in old if each not in {_ORPHAN, _FOREGROUND}]
    if wanted:
        new.append(wanted)
    if set(new) == set(old):
        return
    if new:
        metadata["finalizers"] = new
    else:
        metadata.pop("finalizers", None)
