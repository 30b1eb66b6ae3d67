# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Required, TypedDict

from manager.api import Resource
from manager_kinds.factory import Part

__all__ = [
    "APIService",
    "APIServiceCondition",
    "APIServiceConditionDict",
    "APIServiceSpec",
    "APIServiceSpecDict",
    "APIServiceStatus",
    "APIServiceStatusDict",
    "ServiceReference",
    "ServiceReferenceDict",
]

class APIService(
    Resource, group="apiregistration.k8s.io", version="v1", plural="apiservices", namespaced=False
):
    """APIService of apiregistration.k8s.io/v1, cluster-scoped."""

    spec: APIServiceSpecDict = {}
    status: APIServiceStatusDict = {}

class APIServiceCondition(Part[APIServiceConditionDict]):
    type: str
    status: str
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class APIServiceConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str

class APIServiceSpec(Part[APIServiceSpecDict]):
    service: ServiceReference | None = None
    group: str | None = None
    version: str | None = None
    insecure_skip_tls_verify: bool | None = None
    ca_bundle: str | None = None
    group_priority_minimum: int
    version_priority: int

class APIServiceSpecDict(TypedDict, total=False):
    service: ServiceReferenceDict
    group: str
    version: str
    insecureSkipTLSVerify: bool
    caBundle: str
    groupPriorityMinimum: int
    versionPriority: int

class APIServiceStatus(Part[APIServiceStatusDict]):
    conditions: list[APIServiceCondition] | None = None

class APIServiceStatusDict(TypedDict, total=False):
    conditions: list[APIServiceConditionDict]

class ServiceReference(Part[ServiceReferenceDict]):
    namespace: str | None = None
    name: str | None = None
    port: int | None = None

class ServiceReferenceDict(TypedDict, total=False):
    namespace: str
    name: str
    port: int
