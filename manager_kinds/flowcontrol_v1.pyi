# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Required, TypedDict

from manager.api import Resource
from manager_kinds.factory import Part

__all__ = [
    "ExemptPriorityLevelConfiguration",
    "ExemptPriorityLevelConfigurationDict",
    "FlowDistinguisherMethod",
    "FlowDistinguisherMethodDict",
    "FlowSchema",
    "FlowSchemaCondition",
    "FlowSchemaConditionDict",
    "FlowSchemaSpec",
    "FlowSchemaSpecDict",
    "FlowSchemaStatus",
    "FlowSchemaStatusDict",
    "GroupSubject",
    "GroupSubjectDict",
    "LimitResponse",
    "LimitResponseDict",
    "LimitedPriorityLevelConfiguration",
    "LimitedPriorityLevelConfigurationDict",
    "NonResourcePolicyRule",
    "NonResourcePolicyRuleDict",
    "PolicyRulesWithSubjects",
    "PolicyRulesWithSubjectsDict",
    "PriorityLevelConfiguration",
    "PriorityLevelConfigurationCondition",
    "PriorityLevelConfigurationConditionDict",
    "PriorityLevelConfigurationReference",
    "PriorityLevelConfigurationReferenceDict",
    "PriorityLevelConfigurationSpec",
    "PriorityLevelConfigurationSpecDict",
    "PriorityLevelConfigurationStatus",
    "PriorityLevelConfigurationStatusDict",
    "QueuingConfiguration",
    "QueuingConfigurationDict",
    "ResourcePolicyRule",
    "ResourcePolicyRuleDict",
    "ServiceAccountSubject",
    "ServiceAccountSubjectDict",
    "Subject",
    "SubjectDict",
    "UserSubject",
    "UserSubjectDict",
]

class ExemptPriorityLevelConfiguration(Part[ExemptPriorityLevelConfigurationDict]):
    nominal_concurrency_shares: int | None = None
    lendable_percent: int | None = None

class ExemptPriorityLevelConfigurationDict(TypedDict, total=False):
    nominalConcurrencyShares: int
    lendablePercent: int

class FlowDistinguisherMethod(Part[FlowDistinguisherMethodDict]):
    type: str

class FlowDistinguisherMethodDict(TypedDict, total=False):
    type: Required[str]

class FlowSchema(
    Resource, group="flowcontrol.apiserver.k8s.io", version="v1", plural="flowschemas", namespaced=False
):
    """FlowSchema of flowcontrol.apiserver.k8s.io/v1, cluster-scoped."""

    spec: FlowSchemaSpecDict = {}
    status: FlowSchemaStatusDict = {}

class FlowSchemaCondition(Part[FlowSchemaConditionDict]):
    type: str | None = None
    status: str | None = None
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class FlowSchemaConditionDict(TypedDict, total=False):
    type: str
    status: str
    lastTransitionTime: str
    reason: str
    message: str

class FlowSchemaSpec(Part[FlowSchemaSpecDict]):
    priority_level_configuration: PriorityLevelConfigurationReference
    matching_precedence: int | None = None
    distinguisher_method: FlowDistinguisherMethod | None = None
    rules: list[PolicyRulesWithSubjects] | None = None

class FlowSchemaSpecDict(TypedDict, total=False):
    priorityLevelConfiguration: PriorityLevelConfigurationReferenceDict
    matchingPrecedence: int
    distinguisherMethod: FlowDistinguisherMethodDict
    rules: list[PolicyRulesWithSubjectsDict]

class FlowSchemaStatus(Part[FlowSchemaStatusDict]):
    conditions: list[FlowSchemaCondition] | None = None

class FlowSchemaStatusDict(TypedDict, total=False):
    conditions: list[FlowSchemaConditionDict]

class GroupSubject(Part[GroupSubjectDict]):
    name: str

class GroupSubjectDict(TypedDict, total=False):
    name: Required[str]

class LimitResponse(Part[LimitResponseDict]):
    type: str
    queuing: QueuingConfiguration | None = None

class LimitResponseDict(TypedDict, total=False):
    type: Required[str]
    queuing: QueuingConfigurationDict

class LimitedPriorityLevelConfiguration(Part[LimitedPriorityLevelConfigurationDict]):
    nominal_concurrency_shares: int | None = None
    limit_response: LimitResponse | None = None
    lendable_percent: int | None = None
    borrowing_limit_percent: int | None = None

class LimitedPriorityLevelConfigurationDict(TypedDict, total=False):
    nominalConcurrencyShares: int
    limitResponse: LimitResponseDict
    lendablePercent: int
    borrowingLimitPercent: int

class NonResourcePolicyRule(Part[NonResourcePolicyRuleDict]):
    verbs: list[str]
    non_resource_urls: list[str]

class NonResourcePolicyRuleDict(TypedDict, total=False):
    verbs: Required[list[str]]
    nonResourceURLs: Required[list[str]]

class PolicyRulesWithSubjects(Part[PolicyRulesWithSubjectsDict]):
    subjects: list[Subject]
    resource_rules: list[ResourcePolicyRule] | None = None
    non_resource_rules: list[NonResourcePolicyRule] | None = None

class PolicyRulesWithSubjectsDict(TypedDict, total=False):
    subjects: Required[list[SubjectDict]]
    resourceRules: list[ResourcePolicyRuleDict]
    nonResourceRules: list[NonResourcePolicyRuleDict]

class PriorityLevelConfiguration(
    Resource,
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    plural="prioritylevelconfigurations",
    namespaced=False,
):
    """PriorityLevelConfiguration of flowcontrol.apiserver.k8s.io/v1, cluster-scoped."""

    spec: PriorityLevelConfigurationSpecDict = {}
    status: PriorityLevelConfigurationStatusDict = {}

class PriorityLevelConfigurationCondition(Part[PriorityLevelConfigurationConditionDict]):
    type: str | None = None
    status: str | None = None
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class PriorityLevelConfigurationConditionDict(TypedDict, total=False):
    type: str
    status: str
    lastTransitionTime: str
    reason: str
    message: str

class PriorityLevelConfigurationReference(Part[PriorityLevelConfigurationReferenceDict]):
    name: str

class PriorityLevelConfigurationReferenceDict(TypedDict, total=False):
    name: Required[str]

class PriorityLevelConfigurationSpec(Part[PriorityLevelConfigurationSpecDict]):
    type: str
    limited: LimitedPriorityLevelConfiguration | None = None
    exempt: ExemptPriorityLevelConfiguration | None = None

class PriorityLevelConfigurationSpecDict(TypedDict, total=False):
    type: str
    limited: LimitedPriorityLevelConfigurationDict
    exempt: ExemptPriorityLevelConfigurationDict

class PriorityLevelConfigurationStatus(Part[PriorityLevelConfigurationStatusDict]):
    conditions: list[PriorityLevelConfigurationCondition] | None = None

class PriorityLevelConfigurationStatusDict(TypedDict, total=False):
    conditions: list[PriorityLevelConfigurationConditionDict]

class QueuingConfiguration(Part[QueuingConfigurationDict]):
    queues: int | None = None
    hand_size: int | None = None
    queue_length_limit: int | None = None

class QueuingConfigurationDict(TypedDict, total=False):
    queues: int
    handSize: int
    queueLengthLimit: int

class ResourcePolicyRule(Part[ResourcePolicyRuleDict]):
    verbs: list[str]
    api_groups: list[str]
    resources: list[str]
    cluster_scope: bool | None = None
    namespaces: list[str] | None = None

class ResourcePolicyRuleDict(TypedDict, total=False):
    verbs: Required[list[str]]
    apiGroups: Required[list[str]]
    resources: Required[list[str]]
    clusterScope: bool
    namespaces: list[str]

class ServiceAccountSubject(Part[ServiceAccountSubjectDict]):
    namespace: str
    name: str

class ServiceAccountSubjectDict(TypedDict, total=False):
    namespace: Required[str]
    name: Required[str]

class Subject(Part[SubjectDict]):
    kind: str
    user: UserSubject | None = None
    group: GroupSubject | None = None
    service_account: ServiceAccountSubject | None = None

class SubjectDict(TypedDict, total=False):
    kind: Required[str]
    user: UserSubjectDict
    group: GroupSubjectDict
    serviceAccount: ServiceAccountSubjectDict

class UserSubject(Part[UserSubjectDict]):
    name: str

class UserSubjectDict(TypedDict, total=False):
    name: Required[str]
