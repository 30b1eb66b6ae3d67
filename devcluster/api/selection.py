"""Selection of a resource's objects by a request's selectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import orjson

from devcluster.api import conversion
from devcluster.api.options import ListOptions
from devcluster.api.sharding import ShardSelector
from devcluster.errors import bad_request
from devcluster.kinds.resource import Resource
from devcluster.storage.records import Stored
from devcluster.storage.selectors import FieldSelector, LabelSelector, SelectorError

__all__ = ["Selection"]

Object = dict[str, Any]

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """Label, field and shard selectors, checked against the kind's selectable fields."""

    resource: Resource
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    shards: ShardSelector | None = None
    decodes: bool = False
    """Whether matching needs the decoded object."""

    @classmethod
    def of(cls, resource: Resource, options: ListOptions, *, name: str = "") -> Selection:
        """Read the selectors of the options, and the `name` of a path that names one object.

        Raises:
            StatusError: they make no sense, or name fields that cannot be selected by.
        """
        try:
            labels = LabelSelector.parse(options.label_selector) if options.label_selector else None
            fields = FieldSelector.parse(options.field_selector) if options.field_selector else None
        except SelectorError as error:
            raise bad_request(str(error)) from None
        if name:
            if fields is not None and not fields.empty and fields.value_of(_NAME) != name:
                raise bad_request("fieldSelector metadata.name doesn't match requested name")
            fields = FieldSelector([(_NAME, name, True)])
        decodes = False
        for field in fields.fields if fields is not None else ():
            if field in {_NAME, _NAMESPACE}:
                continue
            if field not in selectable(resource):
                raise bad_request(_unsupported(resource, field))
            decodes = True
        return cls(
            resource,
            None if labels is None or labels.empty else labels,
            None if fields is None or fields.empty else fields,
            ShardSelector.parse(options.shard_selector) if options.shard_selector else None,
            decodes,
        )

    @property
    def everything(self) -> bool:
        """Whether the selection has all objects."""
        return self.whole and self.shards is None

    @property
    def whole(self) -> bool:
        """Whether only a shard selector limits the selection."""
        return self.labels is None and self.fields is None

    @property
    def name(self) -> str | None:
        """The single name that the field selector asks for, or None."""
        return None if self.fields is None else self.fields.value_of(_NAME)

    @property
    def namespace(self) -> str:
        """The namespace that the field selector asks for, or ""."""
        return (self.fields.value_of(_NAMESPACE) or "") if self.fields is not None else ""

    @property
    def converts(self) -> bool:
        """Whether the selected fields may differ between the stored and the requested version."""
        resource = self.resource
        if not resource.custom:
            return False
        return self.decodes or (self.labels is not None and resource.convert is not None)

    async def ready(self, items: Iterable[Stored | None]) -> None:
        """Do what `matches` needs for these objects.

        Raises:
            StatusError: 500, the conversion webhook failed.
        """
        if self.converts:
            await conversion.data_of(self.resource, [each for each in items if each is not None])

    def matches(self, stored: Stored) -> bool:
        """Return whether an object is selected; call `ready` with it before."""
        if self.shards is not None and not self.shards.matches(stored):
            return False
        data = conversion.known(self.resource, stored) if self.converts else None
        obj = None if data is None or data is stored.data else orjson.loads(data)
        labels = stored.labels if obj is None else obj["metadata"].get("labels") or {}
        if self.labels is not None and not self.labels.matches(labels):
            return False
        if self.fields is None:
            return True
        values = {_NAME: stored.key.name, _NAMESPACE: stored.key.namespace}
        if self.decodes:
            values |= fields_of(self.resource, stored.decode() if obj is None else obj)
        return self.fields.matches(values)


def selectable(resource: Resource) -> frozenset[str]:
    """Return the fields that field selectors may name, besides metadata.name and metadata.namespace."""
    if resource.custom:
        return frozenset(field.removeprefix(".") for field in resource.selectable_fields)
    return frozenset(resource.strategy.fields({"metadata": {}, "spec": {}, "status": {}}))


def fields_of(resource: Resource, obj: Object) -> dict[str, str]:
    """Return the values of the selectable fields."""
    if not resource.custom:
        return dict(resource.strategy.fields(obj))
    return {field: _shown(_at(obj, field)) for field in selectable(resource)}


def _at(obj: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _unsupported(resource: Resource, field: str) -> str:
    if resource.custom or selectable(resource):
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
