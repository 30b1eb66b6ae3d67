"""A kopf operator for Gadgets, started by `kopf run`; an environment variable contains their API group."""

from __future__ import annotations

import os
from typing import Any

import kopf

GROUP = os.environ["GADGET_GROUP"]


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = True
    settings.networking.request_timeout = 10


@kopf.on.create(GROUP, "v1", "gadgets")
def created(spec: kopf.Spec, **_: Any) -> dict[str, int]:
    return {"size": spec["size"]}


@kopf.on.field(GROUP, "v1", "gadgets", field="spec.size")
def resized(new: int, patch: kopf.Patch, **_: Any) -> None:
    patch.status["seen"] = new


@kopf.on.delete(GROUP, "v1", "gadgets")
def deleted(body: kopf.Body, **_: Any) -> None:
    kopf.info(body, reason="Farewell", message="it goes")
