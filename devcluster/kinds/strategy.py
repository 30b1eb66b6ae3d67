"""Strategy: rules by which the API server defaults, validates, deletes and displays objects of a kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from devcluster.equality import equal
from devcluster.errors import FieldError
from devcluster.http_call import User
from devcluster.names import dns_subdomain
from devcluster.storage.store import Store

Object = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Facts about a request, besides the object, for the methods of Strategy."""

    store: Store
    now: str
    """The time of the request, in the format of objects: `2026-01-31T12:00:00Z`."""
    user: User
    subresource: str = ""
    dry_run: bool = False


class Strategy:
    """The API server's rules for objects of one kind; the methods here do what is right for most kinds.

    For a write, the order of calls is `default`, mutating admission, `prepare_*`, `default` (if admission
    ran), `validate_*`, validating admission, `commit`. Methods change the new object in place, which is the
    caller's copy; they must not change `old`. All methods are synchronous, so no other task runs between
    reading the old object and storing the new one, except during conversion, admission and `slow_checks`.
    After these, the write fails if the stored object has changed.
    """

    slow_checks: bool = False
    """Whether `validate_create` and `validate_update` take so long that they run in a thread."""
    status_fields: tuple[str, ...] = ("status",)
    """Top-level fields that only the status subresource writes; () for kinds without one."""
    status_reset: tuple[str | tuple[str, ...], ...] = ("spec",)
    """The fields that the status subresource neither changes nor owns."""
    create_on_update: bool = False
    """Whether a PUT of a name that does not exist creates it."""
    unconditional_update: bool = True
    """Whether a PUT without a resourceVersion overwrites the current object."""
    returns_deleted: bool = False
    """Whether a delete returns the object; for most kinds it returns a Status."""
    orphans_by_default: bool = False
    """Whether a delete without a propagation policy orphans the dependents; most kinds delete them."""
    delete_warning: str = ""
    """The warning for a delete without a propagation policy."""
    supports_propagation: bool = True
    """Whether a delete's propagation policy has effect; it has none for Events."""
    waits_unless_orphaned: bool = False
    """Whether `orphanDependents: false` means Foreground; for most kinds it means Background."""
    has_generation: bool = False
    """Whether the kind has metadata.generation.

    It starts at 1 and increases with each change outside metadata and status."""

    def prepare_create(self, new: Object, context: Context) -> None:
        """Drop fields that the creator must not set, such as the status."""
        for field in self.status_fields:
            new.pop(field, None)
        if self.has_generation:
            new["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
        """Restore fields that an update must not change, such as the status, and update the generation."""
        for field in self.status_fields:
            _keep(new, old, field)
        if self.has_generation:
            generation = old["metadata"].get("generation", 1)
            unchanged = equal(self.spec_of(new), self.spec_of(old))
            new["metadata"]["generation"] = generation if unchanged else generation + 1

    def prepare_status_update(self, new: Object, old: Object, context: Context) -> None:
        """Restore everything except the status and the metadata; of the metadata, restore the generation."""
        for field in {*new, *old} - {*self.status_fields, "metadata", "apiVersion", "kind"}:
            _keep(new, old, field)
        if "generation" in old["metadata"]:
            new["metadata"]["generation"] = old["metadata"]["generation"]

    def spec_of(self, obj: Object) -> Object:
        """Return the part of an object whose changes increment `metadata.generation`."""
        return {key: value for key, value in obj.items() if key not in {"metadata", *self.status_fields}}

    def default(self, obj: Object) -> None:
        """Fill in defaults; calling this again must change nothing."""

    def default_applied(self, obj: Object) -> None:
        """Fill in defaults of an applied configuration before validation; by default, calls `default`."""
        self.default(obj)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Return the errors in a new object; its metadata is already validated."""
        return []

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Return errors in an update, such as a changed immutable field; the metadata is already valid."""
        return self.validate_create(new, context)

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Return the errors in an update of the status subresource."""
        return []

    def validate_name(self, name: str, *, prefix: bool) -> list[str]:
        """Return the errors in a name, by default those of a DNS subdomain; `prefix` means generateName."""
        return dns_subdomain(name, prefix=prefix)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Return warnings for the client; `old` is None for a new object."""
        return []

    def commit(self, new: Object, old: Object | None, context: Context) -> None:
        """Do the last step before the object is stored, such as allocating cluster IPs and node ports.

        The step must leave no trace in a dry run (`context.dry_run`). Raises StatusError to refuse the write.
        """

    def released(self, old: Object, context: Context) -> None:
        """Release what `commit` allocated, after the object is deleted."""

    def prepare_delete(self, obj: Object, context: Context) -> bool:
        """Prepare an object for deletion, if its kind needs more than the usual steps.

        True means that the server writes the object in its current form instead of removing it.
        """
        return False

    def grace_period(self, obj: Object, asked: int | None) -> int | None:
        """Return the grace period of a deletion in seconds, or None for any kind except Pod.

        `asked` is the period in the delete's options, or None.
        """
        return None

    def holds(self, obj: Object) -> bool:
        """Return whether something besides finalizers delays the deletion, such as a namespace's content."""
        return False

    def mark_deleted(self, obj: Object) -> None:
        """Change the object when its deletionTimestamp is set; only called if `holds` returns True."""

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return the selectable fields and their values, besides metadata.name and metadata.namespace."""
        return {}

    def row(self, obj: Object) -> list[Any]:
        """Return the cells of the object's table row; custom kinds use the JSON paths of their columns."""
        return [obj["metadata"].get("name", ""), obj["metadata"].get("creationTimestamp")]

    def row_conditions(self, obj: Object) -> list[Object]:
        """Return the conditions of the object's table row, for example that a pod has completed."""
        return []


def _keep(new: Object, old: Object, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)
