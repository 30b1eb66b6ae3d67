"""The annotation of a client-side `kubectl apply`, when a server-side one follows."""

from __future__ import annotations

from typing import Any, Final

import orjson

from devcluster.patch.compare import applied_fields, compare
from devcluster.patch.fields import EMPTY, Fields, difference
from devcluster.patch.go_format import go_json
from devcluster.patch.shape import Untypable, root_shape
from devcluster.patch.validate import shape_errors
from devcluster.schema.node import Schema

__all__ = ["ANNOTATION", "owned", "refresh"]

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"

Object = dict[str, Any]


def owned(live: Object, schema: Schema, api_version: str) -> Fields:
    """Return the fields that still have the value in kubectl's annotation; kubectl may take them over."""
    try:
        config = orjson.loads((live["metadata"].get("annotations") or {}).get(ANNOTATION) or "null")
    except orjson.JSONDecodeError:
        return EMPTY
    if not isinstance(config, dict) or config.get("apiVersion") != api_version:
        return EMPTY
    if shape_errors(config, root_shape(schema)):
        return EMPTY
    try:
        fields = applied_fields(config, schema)
        comparison = compare(config, live, schema)
    except Untypable:
        return EMPTY
    return difference(difference(fields, comparison.changed), comparison.removed)


def refresh(obj: Object, config: Object) -> None:
    """Bring the annotation up to date, if `obj` has it, changing `obj` but not its annotations in place."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return
    applied = dict(config)
    applied["metadata"] = dict(config.get("metadata") or {})
    if applied["metadata"].get("annotations"):
        left = {key: value for key, value in applied["metadata"]["annotations"].items() if key != ANNOTATION}
        applied["metadata"].pop("annotations")
        if left:
            applied["metadata"]["annotations"] = left
    text = go_json(orjson.dumps(applied, option=orjson.OPT_SORT_KEYS).decode())
    metadata["annotations"] = {**annotations, ANNOTATION: text + "\n"}
