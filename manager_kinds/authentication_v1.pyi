# Made by scripts/generate-kinds; do not edit.
from typing import TypedDict

from manager.api import Resource
from manager_kinds.factory import Part

__all__ = [
    "SelfSubjectReview",
    "SelfSubjectReviewStatus",
    "SelfSubjectReviewStatusDict",
    "TokenReview",
    "TokenReviewSpec",
    "TokenReviewSpecDict",
    "TokenReviewStatus",
    "TokenReviewStatusDict",
    "UserInfo",
    "UserInfoDict",
]

class SelfSubjectReview(
    Resource, group="authentication.k8s.io", version="v1", plural="selfsubjectreviews", namespaced=False
):
    """SelfSubjectReview of authentication.k8s.io/v1, cluster-scoped."""

    status: SelfSubjectReviewStatusDict = {}

class SelfSubjectReviewStatus(Part[SelfSubjectReviewStatusDict]):
    user_info: UserInfo | None = None

class SelfSubjectReviewStatusDict(TypedDict, total=False):
    userInfo: UserInfoDict

class TokenReview(
    Resource, group="authentication.k8s.io", version="v1", plural="tokenreviews", namespaced=False
):
    """TokenReview of authentication.k8s.io/v1, cluster-scoped."""

    spec: TokenReviewSpecDict = {}
    status: TokenReviewStatusDict = {}

class TokenReviewSpec(Part[TokenReviewSpecDict]):
    token: str
    audiences: list[str] | None = None

class TokenReviewSpecDict(TypedDict, total=False):
    token: str
    audiences: list[str]

class TokenReviewStatus(Part[TokenReviewStatusDict]):
    authenticated: bool | None = None
    user: UserInfo | None = None
    audiences: list[str] | None = None
    error: str | None = None

class TokenReviewStatusDict(TypedDict, total=False):
    authenticated: bool
    user: UserInfoDict
    audiences: list[str]
    error: str

class UserInfo(Part[UserInfoDict]):
    username: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None

class UserInfoDict(TypedDict, total=False):
    username: str
    uid: str
    groups: list[str]
    extra: dict[str, list[str]]
