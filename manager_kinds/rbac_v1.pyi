# Made by scripts/generate-kinds; do not edit.
from typing import Required, TypedDict

from manager.api import Resource
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import LabelSelector, LabelSelectorDict

__all__ = [
    "AggregationRule",
    "AggregationRuleDict",
    "ClusterRole",
    "ClusterRoleBinding",
    "PolicyRule",
    "PolicyRuleDict",
    "Role",
    "RoleBinding",
    "RoleRef",
    "RoleRefDict",
    "Subject",
    "SubjectDict",
]

class AggregationRule(Part[AggregationRuleDict]):
    cluster_role_selectors: list[LabelSelector] | None = None

class AggregationRuleDict(TypedDict, total=False):
    clusterRoleSelectors: list[LabelSelectorDict]

class ClusterRole(
    Resource, group="rbac.authorization.k8s.io", version="v1", plural="clusterroles", namespaced=False
):
    """ClusterRole of rbac.authorization.k8s.io/v1, cluster-scoped."""

    rules: list[PolicyRuleDict] | None = None
    aggregation_rule: AggregationRuleDict | None = None

class ClusterRoleBinding(
    Resource, group="rbac.authorization.k8s.io", version="v1", plural="clusterrolebindings", namespaced=False
):
    """ClusterRoleBinding of rbac.authorization.k8s.io/v1, cluster-scoped."""

    subjects: list[SubjectDict] | None = None
    role_ref: RoleRefDict

class PolicyRule(Part[PolicyRuleDict]):
    verbs: list[str]
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None
    non_resource_urls: list[str] | None = None

class PolicyRuleDict(TypedDict, total=False):
    verbs: Required[list[str]]
    apiGroups: list[str]
    resources: list[str]
    resourceNames: list[str]
    nonResourceURLs: list[str]

class Role(Resource, group="rbac.authorization.k8s.io", version="v1", plural="roles"):
    """Role of rbac.authorization.k8s.io/v1."""

    rules: list[PolicyRuleDict] | None = None

class RoleBinding(Resource, group="rbac.authorization.k8s.io", version="v1", plural="rolebindings"):
    """RoleBinding of rbac.authorization.k8s.io/v1."""

    subjects: list[SubjectDict] | None = None
    role_ref: RoleRefDict

class RoleRef(Part[RoleRefDict]):
    api_group: str | None = None
    kind: str
    name: str

class RoleRefDict(TypedDict, total=False):
    apiGroup: str
    kind: Required[str]
    name: Required[str]

class Subject(Part[SubjectDict]):
    kind: str
    api_group: str | None = None
    name: str
    namespace: str | None = None

class SubjectDict(TypedDict, total=False):
    kind: Required[str]
    apiGroup: str
    name: Required[str]
    namespace: str
