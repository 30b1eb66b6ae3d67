"""ControllerRevisions and PodTemplates."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import Object, StoredStrategy, columns
from devcluster.builtin.checks import immutable, non_negative
from devcluster.builtin.pod_checks import pod_template
from devcluster.builtin.templates import default_template
from devcluster.builtin.wide import container_cells, labels_cell
from devcluster.errors import FieldError, field_required

if TYPE_CHECKING:
    from devcluster.kinds.strategy import Context

__all__ = ["ControllerRevisionStrategy", "PodTemplateStrategy"]


class ControllerRevisionStrategy(StoredStrategy):
    """The rules of revisions: they do not change."""

    columns = columns("Name | Controller | Revision | Age")

    def default(self, obj: Object) -> None:
        """Set a missing revision to 0."""
        obj.setdefault("revision", 0)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check that the data is an object."""
        wrong = [
            FieldError(error.reason, error.field.removeprefix("."), error.text)
            for error in non_negative(new, "", "revision")
        ]
        if new.get("data") is None:
            wrong.append(field_required("data", "data is mandatory"))
        elif not isinstance(new["data"], dict):
            wrong.append(field_required("data", "data must be a valid JSON object"))
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check that the data is unchanged."""
        return immutable(new.get("data"), old.get("data"), "data")

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the controller."""
        owners = [each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")]
        shown = "<none>"
        if owners:
            group = owners[0].get("apiVersion", "").rpartition("/")[0]
            kind = owners[0].get("kind", "").lower()
            shown = f"{kind}.{group}/{owners[0].get('name')}" if group else f"{kind}/{owners[0].get('name')}"
        return [obj["metadata"].get("name", ""), shown, obj.get("revision", 0), self.created(obj)]


class PodTemplateStrategy(StoredStrategy):
    """The rules of templates that stand alone."""

    columns = columns("Name | Containers | Images | Pod Labels")
    has_generation = True

    def default(self, obj: Object) -> None:
        """Set the defaults of the template."""
        default_template(obj)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check the template."""
        return pod_template(new["template"], "template")

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the containers."""
        template = obj.get("template") or {}
        labels = labels_cell((template.get("metadata") or {}).get("labels"))
        return [obj["metadata"].get("name", ""), *container_cells(template), labels]
