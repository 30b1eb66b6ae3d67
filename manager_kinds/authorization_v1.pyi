# Made by scripts/generate-kinds; do not edit.
from typing import Required, TypedDict

from manager.api import Resource
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import (
    FieldSelectorRequirement,
    FieldSelectorRequirementDict,
    LabelSelectorRequirement,
    LabelSelectorRequirementDict,
)

__all__ = [
    "FieldSelectorAttributes",
    "FieldSelectorAttributesDict",
    "LabelSelectorAttributes",
    "LabelSelectorAttributesDict",
    "LocalSubjectAccessReview",
    "NonResourceAttributes",
    "NonResourceAttributesDict",
    "NonResourceRule",
    "NonResourceRuleDict",
    "ResourceAttributes",
    "ResourceAttributesDict",
    "ResourceRule",
    "ResourceRuleDict",
    "SelfSubjectAccessReview",
    "SelfSubjectAccessReviewSpec",
    "SelfSubjectAccessReviewSpecDict",
    "SelfSubjectRulesReview",
    "SelfSubjectRulesReviewSpec",
    "SelfSubjectRulesReviewSpecDict",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewSpecDict",
    "SubjectAccessReviewStatus",
    "SubjectAccessReviewStatusDict",
    "SubjectRulesReviewStatus",
    "SubjectRulesReviewStatusDict",
]

class FieldSelectorAttributes(Part[FieldSelectorAttributesDict]):
    raw_selector: str | None = None
    requirements: list[FieldSelectorRequirement] | None = None

class FieldSelectorAttributesDict(TypedDict, total=False):
    rawSelector: str
    requirements: list[FieldSelectorRequirementDict]

class LabelSelectorAttributes(Part[LabelSelectorAttributesDict]):
    raw_selector: str | None = None
    requirements: list[LabelSelectorRequirement] | None = None

class LabelSelectorAttributesDict(TypedDict, total=False):
    rawSelector: str
    requirements: list[LabelSelectorRequirementDict]

class LocalSubjectAccessReview(
    Resource, group="authorization.k8s.io", version="v1", plural="localsubjectaccessreviews"
):
    """LocalSubjectAccessReview of authorization.k8s.io/v1."""

    spec: SubjectAccessReviewSpecDict = {}
    status: SubjectAccessReviewStatusDict = {}

class NonResourceAttributes(Part[NonResourceAttributesDict]):
    path: str | None = None
    verb: str | None = None

class NonResourceAttributesDict(TypedDict, total=False):
    path: str
    verb: str

class NonResourceRule(Part[NonResourceRuleDict]):
    verbs: list[str]
    non_resource_urls: list[str] | None = None

class NonResourceRuleDict(TypedDict, total=False):
    verbs: Required[list[str]]
    nonResourceURLs: list[str]

class ResourceAttributes(Part[ResourceAttributesDict]):
    namespace: str | None = None
    verb: str | None = None
    group: str | None = None
    version: str | None = None
    resource: str | None = None
    subresource: str | None = None
    name: str | None = None
    field_selector: FieldSelectorAttributes | None = None
    label_selector: LabelSelectorAttributes | None = None

class ResourceAttributesDict(TypedDict, total=False):
    namespace: str
    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    name: str
    fieldSelector: FieldSelectorAttributesDict
    labelSelector: LabelSelectorAttributesDict

class ResourceRule(Part[ResourceRuleDict]):
    verbs: list[str]
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None

class ResourceRuleDict(TypedDict, total=False):
    verbs: Required[list[str]]
    apiGroups: list[str]
    resources: list[str]
    resourceNames: list[str]

class SelfSubjectAccessReview(
    Resource, group="authorization.k8s.io", version="v1", plural="selfsubjectaccessreviews", namespaced=False
):
    """SelfSubjectAccessReview of authorization.k8s.io/v1, cluster-scoped."""

    spec: SelfSubjectAccessReviewSpecDict = {}
    status: SubjectAccessReviewStatusDict = {}

class SelfSubjectAccessReviewSpec(Part[SelfSubjectAccessReviewSpecDict]):
    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None

class SelfSubjectAccessReviewSpecDict(TypedDict, total=False):
    resourceAttributes: ResourceAttributesDict
    nonResourceAttributes: NonResourceAttributesDict

class SelfSubjectRulesReview(
    Resource, group="authorization.k8s.io", version="v1", plural="selfsubjectrulesreviews", namespaced=False
):
    """SelfSubjectRulesReview of authorization.k8s.io/v1, cluster-scoped."""

    spec: SelfSubjectRulesReviewSpecDict = {}
    status: SubjectRulesReviewStatusDict = {}

class SelfSubjectRulesReviewSpec(Part[SelfSubjectRulesReviewSpecDict]):
    namespace: str | None = None

class SelfSubjectRulesReviewSpecDict(TypedDict, total=False):
    namespace: str

class SubjectAccessReview(
    Resource, group="authorization.k8s.io", version="v1", plural="subjectaccessreviews", namespaced=False
):
    """SubjectAccessReview of authorization.k8s.io/v1, cluster-scoped."""

    spec: SubjectAccessReviewSpecDict = {}
    status: SubjectAccessReviewStatusDict = {}

class SubjectAccessReviewSpec(Part[SubjectAccessReviewSpecDict]):
    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None
    uid: str | None = None

class SubjectAccessReviewSpecDict(TypedDict, total=False):
    resourceAttributes: ResourceAttributesDict
    nonResourceAttributes: NonResourceAttributesDict
    user: str
    groups: list[str]
    extra: dict[str, list[str]]
    uid: str

class SubjectAccessReviewStatus(Part[SubjectAccessReviewStatusDict]):
    allowed: bool
    denied: bool | None = None
    reason: str | None = None
    evaluation_error: str | None = None

class SubjectAccessReviewStatusDict(TypedDict, total=False):
    allowed: bool
    denied: bool
    reason: str
    evaluationError: str

class SubjectRulesReviewStatus(Part[SubjectRulesReviewStatusDict]):
    resource_rules: list[ResourceRule]
    non_resource_rules: list[NonResourceRule]
    incomplete: bool
    evaluation_error: str | None = None

class SubjectRulesReviewStatusDict(TypedDict, total=False):
    resourceRules: list[ResourceRuleDict]
    nonResourceRules: list[NonResourceRuleDict]
    incomplete: bool
    evaluationError: str
