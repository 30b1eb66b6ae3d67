"""Service, as far as controllers and programs use it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from apis.meta import ApiModel, Resource

__all__ = ["LoadBalancerIngress", "LoadBalancerStatus", "Service", "ServiceStatus"]


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
