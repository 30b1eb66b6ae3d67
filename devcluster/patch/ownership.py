"""Field management: what every write does to managedFields, and server-side apply."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from devcluster.errors import StatusError, bad_request
from devcluster.patch import last_applied
from devcluster.patch.compare import Comparison, all_fields, applied_fields, compare
from devcluster.patch.fields import (
    EMPTY,
    Fields,
    difference,
    exclude,
    intersection,
    of_paths,
    paths,
    union,
)
from devcluster.patch.go_format import quoted
from devcluster.patch.managed_fields import (
    Entries,
    Identity,
    Managed,
    encode,
    identify,
    parse,
    resets,
    squeezed,
)
from devcluster.patch.merge import merge, named_too, without
from devcluster.patch.reconcile import reconciled
from devcluster.patch.shape import Shape, Untypable, is_builtin, root_shape
from devcluster.patch.validate import shape_errors
from devcluster.schema.node import Schema

__all__ = ["Convert", "apply", "record_update"]

Object = dict[str, Any]

Convert = Callable[[Object, str], tuple[Object, Schema] | None]
"""An object in another version of its kind (`apiVersion`), with the schema of that version; None when that version
is not served any more."""

BEFORE_FIRST_APPLY = "before-first-apply"


@dataclasses.dataclass(frozen=True, slots=True)
class _Write:
    """What is known of the request that all its steps need."""

    schema: Schema
    api_version: str
    now: str
    reset: Fields
    convert: Convert | None

    def at(self, obj: Object, api_version: str) -> tuple[Object, Schema] | None:
        """The object as of another version. Without a conversion the versions differ in their name alone."""
        if api_version == self.api_version or self.convert is None:
            return obj, self.schema
        return self.convert(obj, api_version)


def record_update(
    new: Object,
    old: Object | None,
    *,
    schema: Schema,
    manager: str,
    api_version: str,
    now: str,
    subresource: str = "",
    reset: Sequence[str | Sequence[str]] = (),
    convert: Convert | None = None,
) -> None:
    """Set the managedFields of `new` after a write that is no apply.

    To be called once `new` is decoded and has its defaults, before admission and the kind's strategy change it:
    what those do belongs to nobody. `old` is None when the object is created; both are of `api_version`.

    Args:
        new: the object as written; changed in place.
        old: what it was.
        schema: of the kind at `api_version`.
        manager: the field manager: the option of the request, or else the start of its user agent.
        api_version: that of the request.
        now: the time of the request, as it stands in objects.
        subresource: through which it came; empty for the object itself.
        reset: the fields that this way of writing does not change: `("status", ("metadata", "labels"))`.
        convert: for kinds of which there are several versions.
    """
    metadata = new.setdefault("metadata", {})
    given = metadata.pop("managedFields", None)
    live = old["metadata"].get("managedFields") if old is not None else None
    entries = _start(given, live, subresource)
    if not entries and old is not None:
        return  # an object is tracked from its creation, or from the first apply on
    write = _Write(schema, api_version, now, of_paths(reset) if reset else EMPTY, convert)
    try:
        if entries:
            entries = _reconcile(entries, old or {}, write)
        entries = _update(old, new, entries, identify(manager, "Update", api_version, subresource), write)
    except Untypable:
        return  # the real server forgets who managed what, rather than keep what cannot be right
    if entries:
        metadata["managedFields"] = encode(entries.values(), custom=not is_builtin(schema))


def apply(
    live: Object | None,
    config: Object,
    *,
    schema: Schema,
    manager: str,
    force: bool,
    api_version: str,
    now: str,
    subresource: str = "",
    reset: Sequence[str | Sequence[str]] = (),
    convert: Convert | None = None,
) -> Object:
    """The object after a server-side apply of `config`, its managedFields set; neither argument is changed.

    A built-in kind still has to be decoded and given its defaults. The kind and the version of `config` must be
    checked against the request's before, which `check_applied` does.

    Args:
        live: what there is, None for an object that is created.
        config: the body of the request.
        schema: of the kind at `api_version`.
        manager: the field manager that the request names.
        force: take the fields that others manage.
        api_version: that of the request, of `live` and of `config`.
        now: the time of the request, as it stands in objects.
        subresource: through which it came; empty for the object itself.
        reset: as of `record_update`.
        convert: as of `record_update`.

    Raises:
        StatusError: 400 for managedFields in `config`, 409 for fields that somebody else manages with another
            value, 500 for a `config` without the shape of its kind.
    """
    write = _Write(schema, api_version, now, of_paths(reset) if reset else EMPTY, convert)
    if config.get("metadata") is not None and (config["metadata"].get("managedFields") is not None):
        raise bad_request("metadata.managedFields must be nil")
    if errors := shape_errors(config, root_shape(schema)):
        raise _failed(f"failed to create typed patch object ({_about(config, api_version)}): {errors}")
    before, entries = _live(live, write)
    me = identify(manager, "Apply", api_version, subresource)
    try:
        after, entries = _apply(before, config, entries, me, write, force=force)
    except _Conflicts as conflicts:
        if manager != "kubectl":
            raise conflicts.refusal() from None
        left = conflicts.beyond(last_applied.owned(before, schema, api_version))
        if left:
            raise _Conflicts(left).refusal() from None
        after, entries = _apply(before, config, entries, me, write, force=True)
    except Untypable as error:
        raise _failed(
            f"failed to create typed live object ({_about(before, api_version)}): {error}"
        ) from None
    result = dict(after)
    result["metadata"] = dict(after.get("metadata") or {})
    if manager == "kubectl":
        last_applied.refresh(result, config)
    if entries:
        result["metadata"]["managedFields"] = encode(entries.values(), custom=not is_builtin(schema))
    return result


def check_applied(config: Any, group: str, version: str, kind: str) -> None:
    """Refuse a configuration of another kind or version than the request is for, as the real server does (400)."""
    found = config if isinstance(config, dict) else {}
    said, said_kind = str(found.get("apiVersion") or ""), str(found.get("kind") or "")
    if (said, said_kind) != (f"{group}/{version}" if group else version, kind):
        raise bad_request(f"invalid object type: {said if '/' in said else f'/{said}'}, Kind={said_kind}")


def _start(given: Any, live: Any, subresource: str) -> Entries:
    """The entries that a write goes on from: the client's own if they make sense, else those there are."""
    if not subresource:
        if resets(given):
            return {}
        if given:
            try:
                return parse(given)
            except ValueError:
                pass
    try:
        return parse(live)
    except ValueError:
        return {}


def _live(live: Object | None, write: _Write) -> tuple[Object, Entries]:
    """What an apply goes on from: the object without its entries, and the entries, made up where there are none."""
    if live is None:
        return {}, {}
    metadata = dict(live["metadata"])
    raw = metadata.pop("managedFields", None)
    before = {**live, "metadata": metadata}
    try:
        entries = parse(raw)
    except ValueError as error:
        raise _failed(f"failed to decode managed fields: {error}") from None
    if entries:
        return before, _reconcile(entries, before, write)
    first = identify(BEFORE_FIRST_APPLY, "Update", write.api_version, "")
    try:
        return before, _update(None, before, {}, first, write)
    except Untypable as error:
        raise _failed(f"failed to create manager for existing fields: {error}") from None


def _update(old: Object | None, new: Object, entries: Entries, me: Identity, write: _Write) -> Entries:
    comparison = _filtered(compare(old, new, write.schema), write)
    if not comparison.changed and not comparison.removed:
        return entries
    if entries:
        entries, _ = _yielded(entries, None, comparison, old or {}, new, write)
    if comparison.changed:
        mine = comparison.changed
        if (previous := entries.get(me)) is not None:
            mine = union(mine, previous.fields)
        entries = {**entries, me: Managed(me, write.api_version, mine, write.now)}
    return squeezed(entries)


def _apply(
    before: Object, config: Object, entries: Entries, me: Identity, write: _Write, *, force: bool
) -> tuple[Object, Entries]:
    shape = root_shape(write.schema)
    after = merge(before, config, shape)
    fields = exclude(applied_fields(config, write.schema), write.reset)
    last = entries.get(me)
    entries = {**entries, me: Managed(me, write.api_version, fields, last.time if last else "")}
    if last is not None:
        after = _pruned(after, entries, last, write)
    comparison = _filtered(compare(before, after, write.schema), write)
    entries, conflicts = _yielded(entries, me, comparison, before, after, write)
    if conflicts and not force:
        raise _Conflicts(conflicts)
    if not fields:
        entries.pop(me, None)
    elif before != after:
        entries[me].time = write.now
    return after, entries


def _filtered(comparison: Comparison, write: _Write) -> Comparison:
    if not write.reset:
        return comparison
    return Comparison(exclude(comparison.changed, write.reset), exclude(comparison.removed, write.reset))


def _yielded(
    entries: Entries, me: Identity | None, comparison: Comparison, old: Object, new: Object, write: _Write
) -> tuple[Entries, dict[Identity, Fields]]:
    """The entries without what the others lose by a write, and what they lose to a new value."""
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


def _compared_at(api_version: str, old: Object, new: Object, write: _Write) -> Comparison | None:
    before, after = write.at(old, api_version), write.at(new, api_version)
    if before is None or after is None:
        return None
    return _filtered(compare(before[0], after[0], after[1]), write)


def _pruned(merged: Object, entries: Entries, last: Managed, write: _Write) -> Object:
    """The merged object without what its applier named the last time and nobody names now."""
    at = write.at(merged, last.api_version)
    if at is None:
        return merged
    there, schema = at
    shape = root_shape(schema)
    owned: dict[str, Fields] = {}
    for entry in entries.values():
        owned[entry.api_version] = union(owned.get(entry.api_version, EMPTY), entry.fields)
    if len(owned) == 1 and not difference(last.fields, owned.get(last.api_version, EMPTY)):
        return merged
    full = there
    pruned = without(there, named_too(last.fields, shape), shape) or {}
    first = {last.api_version: owned.pop(last.api_version)} if last.api_version in owned else {}
    current = last.api_version
    for version, fields in {**first, **owned}.items():
        there_full, there_pruned = (
            _moved(full, current, version, write),
            _moved(pruned, current, version, write),
        )
        if there_full is None or there_pruned is None:
            continue
        (full, schema), (pruned, _) = there_full, there_pruned
        current = version
        pruned = _kept(full, pruned, fields, root_shape(schema))
    back = _moved(pruned, current, last.api_version, write)
    if back is None:
        return merged
    gone = difference(
        named_too(all_fields(there, shape), shape), named_too(all_fields(back[0], shape), shape)
    )
    removed = intersection(gone, named_too(last.fields, shape))
    result = without(there, removed, shape) or {}
    home = _moved(result, last.api_version, write.api_version, write)
    return home[0] if home is not None else merged


def _moved(obj: Object, current: str, version: str, write: _Write) -> tuple[Object, Schema] | None:
    if version == current and version == write.api_version:
        return obj, write.schema
    if write.convert is None:
        return obj, write.schema
    return write.convert(obj, version)


def _kept(full: Object, pruned: Object, owned: Fields, shape: Shape) -> Object:
    """The pruned object with what somebody owns put back."""
    there = named_too(all_fields(full, shape), shape)
    left = named_too(all_fields(pruned, shape), shape)
    kept: Object = without(full, difference(there, union(left, named_too(owned, shape))), shape) or {}
    return kept


def _reconcile(entries: Entries, live: Object, write: _Write) -> Entries:
    """The entries as they should be where a kind's lists and maps have become atomic since they were written."""
    result: Entries = {}
    for identity, entry in entries.items():
        at = write.at(live, entry.api_version)
        if at is None:
            continue
        fields = reconciled(entry.fields, root_shape(at[1]))
        result[identity] = entry if fields is entry.fields else dataclasses.replace(entry, fields=fields)
    return result


class _Conflicts(Exception):
    """Fields that others manage would get another value."""

    def __init__(self, fields: dict[Identity, Fields]) -> None:
        super().__init__()
        self.fields = fields

    def beyond(self, allowed: Fields) -> dict[Identity, Fields]:
        """The conflicts over other fields than these."""
        left = {identity: difference(fields, allowed) for identity, fields in self.fields.items()}
        return {identity: fields for identity, fields in left.items() if fields}

    def refusal(self) -> StatusError:
        """What the client is told."""
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


def _shown(identity: Identity) -> str:
    text = quoted(identity.manager)
    if identity.subresource:
        text += f" with subresource {quoted(identity.subresource)}"
    return f"{text} using {identity.api_version}" if identity.operation == "Update" else text


def _about(obj: Object, api_version: str) -> str:
    metadata = obj.get("metadata") or {}
    namespace, name = (metadata.get(field) for field in ("namespace", "name"))
    whose = f"{namespace if isinstance(namespace, str) else ''}/{name if isinstance(name, str) else ''}"
    group_version = api_version if "/" in api_version else f"/{api_version}"
    return f"{whose}; {group_version}, Kind={obj.get('kind', '')}"


def _failed(message: str) -> StatusError:
    return StatusError(500, "", message)
