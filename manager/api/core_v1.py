"""Kinds of core/v1, as far as operators and their clients use them, and types for kinds of your own."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from pydantic import Field

from manager.api import ApiModel, Resource
from manager.api.builtin import importer, names_of

__all__ = [
    "ConfigMap",
    "LoadBalancerIngress",
    "LoadBalancerStatus",
    "Namespace",
    "Pod",
    "Secret",
    "Service",
    "ServiceStatus",
]

if TYPE_CHECKING:
    from manager.api.builtin.core_v1_claim import *
    from manager.api.builtin.core_v1_container import *
    from manager.api.builtin.core_v1_pod import *
    from manager.api.builtin.core_v1_reference import *
    from manager.api.builtin.core_v1_scheduling import *
    from manager.api.builtin.core_v1_service import *
    from manager.api.builtin.core_v1_volume import *
else:
    __getattr__ = importer("core_v1", globals())
    __all__ += names_of("core_v1")  # noqa: PLE0605 - a list, too


class ConfigMap(Resource, group="", version="v1", plural="configmaps"):
    """Values by key, which are no secret."""

    immutable: bool | None = None
    data: dict[str, str] | None = None


class Namespace(Resource, group="", version="v1", plural="namespaces", namespaced=False):
    """A scope for names; deleting it deletes its content."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)


class Pod(Resource, group="", version="v1", plural="pods"):
    """A group of containers on one node."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)


class Secret(Resource, group="", version="v1", plural="secrets"):
    """Confidential values by key, in base64, which `repr` does not show."""

    type: str | None = None
    immutable: bool | None = None
    data: dict[str, str | None] | None = Field(default=None, repr=False)
    string_data: dict[str, str] | None = Field(default=None, repr=False)
    """The same as text: a write sends it as part of `data`, and no read has it."""

    def value(self, key: str) -> bytes | None:
        """Return the decoded value of the key; None when the Secret does not have it.

        Raises ValueError when the value is not base64, which an API server never stores.
        """
        encoded = (self.data or {}).get(key)
        return None if encoded is None else base64.b64decode(encoded, validate=True)


def fold_string_data(wire: dict[str, Any]) -> dict[str, Any]:
    """Move a Secret's `stringData` into its `data`, as the server would; change nothing else.

    The server does not remember `stringData` of an apply, so it would not remove keys that a later apply
    leaves out. Values that are not text stay, and the server reports them.
    """
    texts = wire.get("stringData")
    if isinstance(texts, dict) and all(isinstance(each, str) for each in texts.values()):
        del wire["stringData"]
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        wire["data"] = {**(wire.get("data") or {}), **encoded}
    return wire


class LoadBalancerIngress(ApiModel):
    """An address of a load balancer: one of the two."""

    ip: str = ""
    hostname: str = ""


class LoadBalancerStatus(ApiModel):
    """The addresses at which a load balancer takes connections; none while it is being made."""

    ingress: list[LoadBalancerIngress] = Field(default_factory=list)


class ServiceStatus(ApiModel):
    """A Service's state."""

    load_balancer: LoadBalancerStatus = Field(default_factory=LoadBalancerStatus)


class Service(Resource, group="", version="v1", plural="services"):
    """A name, and mostly an address, for what some pods offer."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: ServiceStatus = Field(default_factory=ServiceStatus)
