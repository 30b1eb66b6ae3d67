# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Required, TypedDict

from manager.api import Resource
from manager_kinds.factory import Part

__all__ = [
    "CertificateSigningRequest",
    "CertificateSigningRequestCondition",
    "CertificateSigningRequestConditionDict",
    "CertificateSigningRequestSpec",
    "CertificateSigningRequestSpecDict",
    "CertificateSigningRequestStatus",
    "CertificateSigningRequestStatusDict",
]

class CertificateSigningRequest(
    Resource, group="certificates.k8s.io", version="v1", plural="certificatesigningrequests", namespaced=False
):
    """CertificateSigningRequest of certificates.k8s.io/v1, cluster-scoped."""

    spec: CertificateSigningRequestSpecDict = {}
    status: CertificateSigningRequestStatusDict = {}

class CertificateSigningRequestCondition(Part[CertificateSigningRequestConditionDict]):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_update_time: datetime | None = None
    last_transition_time: datetime | None = None

class CertificateSigningRequestConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    reason: str
    message: str
    lastUpdateTime: str
    lastTransitionTime: str

class CertificateSigningRequestSpec(Part[CertificateSigningRequestSpecDict]):
    request: str
    signer_name: str
    expiration_seconds: int | None = None
    usages: list[str] | None = None
    username: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None

class CertificateSigningRequestSpecDict(TypedDict, total=False):
    request: str
    signerName: str
    expirationSeconds: int
    usages: list[str]
    username: str
    uid: str
    groups: list[str]
    extra: dict[str, list[str]]

class CertificateSigningRequestStatus(Part[CertificateSigningRequestStatusDict]):
    conditions: list[CertificateSigningRequestCondition] | None = None
    certificate: str | None = None

class CertificateSigningRequestStatusDict(TypedDict, total=False):
    conditions: list[CertificateSigningRequestConditionDict]
    certificate: str
