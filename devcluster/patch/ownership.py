"""Ownership of fields: updates, applies, and conflicts between field managers."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from devcluster.equality import equal
from devcluster.errors import StatusError, bad_request
from devcluster.patch.compare import Comparison, all_fields, applied_fields, compare
from devcluster.patch.fields import EMPTY, Fields, difference, intersection, paths, union
from devcluster.patch.managed_fields import (
    Entries,
    Identity,
    Managed,
    encode,
    identify,
    owned,
    parse,
    reconciled,
    refresh,
    resets,
    squeezed,
)
from devcluster.patch.merge import merge, pruned
from devcluster.patch.shape import NotConverted, Untypable, is_builtin, root_shape
from devcluster.patch.write import Write, shape_errors
from devcluster.quantity import quoted
from devcluster.schema.node import Schema


class Conflicts(Exception):
    """Conflicts of an apply: the fields of other managers that it would change."""

    def __init__(self, fields: dict[Identity, Fields]) -> None:
        super().__init__()
        self.fields = fields

    def beyond(self, allowed: Fields) -> dict[Identity, Fields]:
        """Return the conflicts about fields outside of `allowed`."""
        left = {identity: difference(fields, allowed) for identity, fields in self.fields.items()}
        return {identity: fields for identity, fields in left.items() if fields}

    def refusal(self) -> StatusError:
        """Build the 409 for the client, which lists the conflicts."""
        found = [
            (_shown(identity), path)
            for identity in sorted(self.fields, key=Identity.text)
            for path in paths(self.fields[identity])
        ]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
            for who, path in found
        ]
        if len(found) == 1:
            ((who, path),) = found
            message = f"Apply failed with 1 conflict: conflict with {who}: {path}"
        else:
            lines: list[str] = []
            for who, path in found:
                if (head := f"conflicts with {who}:") not in lines:
                    lines.append(head)
                lines.append(f"- {path}")
            message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
        return StatusError(409, "Conflict", message, details={"causes": causes})


BEFORE_FIRST_APPLY: Final = "before-first-apply"


def _shown(identity: Identity) -> str:
    text = quoted(identity.manager)
    if identity.subresource:
        text += f" with subresource {quoted(identity.subresource)}"
    return f"{text} using {identity.api_version}" if identity.operation == "Update" else text


Object = dict[str, Any]


def record_update(new: Object, old: Object | None, write: Write) -> None:
    """Set the managedFields of `new`, the object to be written, after an update or a patch.

    Call it after decoding and defaults, and before admission and `Strategy.prepare_*`, because changes by
    these have no owner. `old` is None for a new object.
    """
    metadata = new.setdefault("metadata", {})
    given = metadata.pop("managedFields", None)
    live = old["metadata"].get("managedFields") if old is not None else None
    entries = _start(given, live, write.subresource)
    if not entries and old is not None:
        return  # tracking starts with the creation or with the first apply
    try:
        if entries:
            entries = _reconcile(entries, old or _blank(new), write)
        entries = _update(old, new, entries, write.manager, write)
    except Untypable:
        return  # the real server drops all owners instead of keeping invalid ones
    if entries:
        metadata["managedFields"] = encode(entries.values(), custom=not is_builtin(write.schema))


def apply(live: Object | None, config: Object, write: Write, *, force: bool) -> Object:
    """Return the object with managedFields after a server-side apply; the arguments stay unchanged.

    The result must still be decoded and defaulted. The caller must check the kind and version of `config`
    with `check_applied` first.

    Args:
        live: the current object, or None for a new one.
        config: the body of the request.
        write: the request.
        force: whether to take over fields that other managers own.

    Raises:
        StatusError: 400 for managedFields in `config`, 409 for fields that another manager owns with another
            value, 500 for a `config` or `live` that does not fit its schema.
    """
    schema, api_version, manager = write.schema, write.api_version, write.manager
    if isinstance(_metadata(config).get("managedFields"), list):
        raise bad_request("metadata.managedFields must be nil")
    if errors := shape_errors(config, root_shape(schema)):
        raise _failed(f"failed to create typed patch object ({object_text(config, api_version)}): {errors}")
    me = identify(manager, "Apply", api_version, write.subresource)
    before: Object = live or {}
    try:
        before, entries = _live(live, write)
        after, entries = _apply(before, config, entries, me, write, force=force)
    except Conflicts as conflicts:
        if manager != "kubectl":
            raise conflicts.refusal() from None
        left = conflicts.beyond(owned(before, schema, api_version))
        if left:
            raise Conflicts(left).refusal() from None
        after, entries = _apply(before, config, entries, me, write, force=True)
    except NotConverted as error:
        raise _failed(str(error)) from None
    except Untypable as error:
        raise _failed(
            f"failed to create typed live object ({object_text(before, api_version)}): {error}"
        ) from None
    result = dict(after)
    result["metadata"] = dict(after.get("metadata") or {})
    if manager == "kubectl":
        refresh(result, config)
    if entries:
        result["metadata"]["managedFields"] = encode(entries.values(), custom=not is_builtin(write.schema))
    return result


def check_applied(config: Any, group: str, version: str, kind: str) -> None:
    """Raise StatusError, 400, if the configuration has another kind or version than the request."""
    found = config if isinstance(config, dict) else {}
    said, said_kind = str(found.get("apiVersion") or ""), str(found.get("kind") or "")
    if (said, said_kind) != (f"{group}/{version}" if group else version, kind):
        raise bad_request(f"invalid object type: {said if '/' in said else f'/{said}'}, Kind={said_kind}")


def _start(given: Any, live: Any, subresource: str) -> Entries:
    """Return the entries before a write: the client's if valid and not for a subresource, else the stored."""
    if not subresource:
        if resets(given):
            return {}
        if given:
            try:
                return parse(given)
            except ValueError:
                pass
    return parse(live, ours=True)


def _live(live: Object | None, write: Write) -> tuple[Object, Entries]:
    """Return `live` without its managedFields, and their entries; create entries if there are none."""
    if live is None:
        return {}, {}
    metadata = dict(live["metadata"])
    raw = metadata.pop("managedFields", None)
    before = {**live, "metadata": metadata}
    if entries := parse(raw, ours=True):
        return before, _reconcile(entries, before, write)
    try:
        return before, _update(None, before, {}, BEFORE_FIRST_APPLY, write)
    except Untypable as error:
        raise _failed(f"failed to create manager for existing fields: {error}") from None


def _update(old: Object | None, new: Object, entries: Entries, manager: str, write: Write) -> Entries:
    me = identify(manager, "Update", write.api_version, write.subresource)
    comparison = _compare(old, new, write.schema, write)
    if not comparison.changed and not comparison.removed:
        return entries
    if entries:
        entries, _ = _yielded(entries, None, comparison, old or _blank(new), new, write)
    if comparison.changed:
        mine = comparison.changed
        if (previous := entries.get(me)) is not None:
            mine = union(mine, previous.fields)
        entries = {**entries, me: Managed(me, write.api_version, mine, write.now)}
    return squeezed(entries)


def _apply(
    before: Object, config: Object, entries: Entries, me: Identity, write: Write, *, force: bool
) -> tuple[Object, Entries]:
    shape = root_shape(write.schema)
    after = merge(before, config, shape)
    fields = write.without_reset(applied_fields(config, write.schema))
    last = entries.get(me)
    mine = Managed(me, write.api_version, fields, last.time if last else "")
    entries = {**entries, me: mine}
    if last is not None:
        # The configuration also has fields without a permanent owner, such as the name.
        named = dataclasses.replace(mine, fields=write.without_reset(all_fields(config, shape)))
        after = pruned(after, {**entries, me: named}, last, write)
    comparison = _compare(before, after, write.schema, write)
    entries, conflicts = _yielded(entries, me, comparison, before, after, write)
    if conflicts and not force:
        raise Conflicts(conflicts)
    if not fields:
        entries.pop(me, None)
    elif not equal(before, after):
        entries[me].time = write.now
    return after, entries


def _compare(old: Object | None, new: Object, schema: Schema, write: Write) -> Comparison:
    return Comparison(*map(write.without_reset, compare(old, new, schema)))


def _yielded(
    entries: Entries, me: Identity | None, comparison: Comparison, old: Object, new: Object, write: Write
) -> tuple[Entries, dict[Identity, Fields]]:
    """Return the entries after a write, and the fields that other managers lose because of new values."""
    versions: dict[str, Comparison | None] = {write.api_version: comparison}
    left: Entries = {}
    lost: dict[Identity, Fields] = {}
    for identity, entry in entries.items():
        if identity == me:
            left[identity] = entry
            continue
        if entry.api_version not in versions:
            versions[entry.api_version] = _compared_at(entry.api_version, old, new, write)
        there = versions[entry.api_version]
        if there is None:
            continue
        taken = intersection(entry.fields, there.changed) if there.changed else EMPTY
        if taken:
            lost[identity] = taken
        fields = difference(difference(entry.fields, taken), there.removed)
        if fields:
            left[identity] = entry if fields is entry.fields else dataclasses.replace(entry, fields=fields)
    return left, lost


def _compared_at(api_version: str, old: Object, new: Object, write: Write) -> Comparison | None:
    before = write.at(old, api_version, failed="failed to convert old object: ")
    after = write.at(new, api_version, failed="failed to convert new object: ")
    if before is None or after is None:
        return None
    return _compare(before[0], after[0], after[1], write)


def _reconcile(entries: Entries, live: Object, write: Write) -> Entries:
    """Return the entries after schema changes: lists and maps that are now atomic are owned as a whole."""
    result: Entries = {}
    for identity, entry in entries.items():
        at = write.at(live, entry.api_version)
        if at is None:
            continue
        if entry.in_order and is_builtin(at[1]):  # a built-in type does not change
            result[identity] = entry
            continue
        fields = reconciled(entry.fields, root_shape(at[1]))
        result[identity] = entry if fields is entry.fields else dataclasses.replace(entry, fields=fields)
    return result


def _blank(obj: Object) -> Object:
    """Return an empty object of the same kind."""
    return {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": {}}


def _metadata(obj: Object) -> dict[str, Any]:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def object_text(obj: Object, api_version: str) -> str:
    """Return an object's identity as Go's errors show it: `namespace/name; group/version, Kind=Kind`."""
    metadata = _metadata(obj)
    namespace, name = (metadata.get(field) for field in ("namespace", "name"))
    whose = f"{namespace if isinstance(namespace, str) else ''}/{name if isinstance(name, str) else ''}"
    return f"{whose}; {kind_text(api_version, obj.get('kind', ''))}"


def kind_text(api_version: str, kind: str) -> str:
    """Return a kind as Go's errors show it: `apps/v1, Kind=Deployment`, or `/v1, Kind=Pod`."""
    return f"{api_version if '/' in api_version else f'/{api_version}'}, Kind={kind}"


def _failed(message: str) -> StatusError:
    return StatusError(500, "", message)
