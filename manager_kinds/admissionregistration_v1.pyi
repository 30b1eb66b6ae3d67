# Made by scripts/generate-kinds; do not edit.
from typing import Required, TypedDict

from manager.api import Condition, Resource
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import ConditionDict, LabelSelector, LabelSelectorDict

__all__ = [
    "ApplyConfiguration",
    "ApplyConfigurationDict",
    "AuditAnnotation",
    "AuditAnnotationDict",
    "ExpressionWarning",
    "ExpressionWarningDict",
    "JSONPatch",
    "JSONPatchDict",
    "MatchCondition",
    "MatchConditionDict",
    "MatchResources",
    "MatchResourcesDict",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBindingSpec",
    "MutatingAdmissionPolicyBindingSpecDict",
    "MutatingAdmissionPolicySpec",
    "MutatingAdmissionPolicySpecDict",
    "MutatingWebhook",
    "MutatingWebhookConfiguration",
    "MutatingWebhookDict",
    "Mutation",
    "MutationDict",
    "NamedRuleWithOperations",
    "NamedRuleWithOperationsDict",
    "ParamKind",
    "ParamKindDict",
    "ParamRef",
    "ParamRefDict",
    "RuleWithOperations",
    "RuleWithOperationsDict",
    "ServiceReference",
    "ServiceReferenceDict",
    "TypeChecking",
    "TypeCheckingDict",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBindingSpec",
    "ValidatingAdmissionPolicyBindingSpecDict",
    "ValidatingAdmissionPolicySpec",
    "ValidatingAdmissionPolicySpecDict",
    "ValidatingAdmissionPolicyStatus",
    "ValidatingAdmissionPolicyStatusDict",
    "ValidatingWebhook",
    "ValidatingWebhookConfiguration",
    "ValidatingWebhookDict",
    "Validation",
    "ValidationDict",
    "Variable",
    "VariableDict",
    "WebhookClientConfig",
    "WebhookClientConfigDict",
]

class ApplyConfiguration(Part[ApplyConfigurationDict]):
    expression: str | None = None

class ApplyConfigurationDict(TypedDict, total=False):
    expression: str

class AuditAnnotation(Part[AuditAnnotationDict]):
    key: str
    value_expression: str

class AuditAnnotationDict(TypedDict, total=False):
    key: Required[str]
    valueExpression: Required[str]

class ExpressionWarning(Part[ExpressionWarningDict]):
    field_ref: str
    warning: str

class ExpressionWarningDict(TypedDict, total=False):
    fieldRef: Required[str]
    warning: Required[str]

class JSONPatch(Part[JSONPatchDict]):
    expression: str | None = None

class JSONPatchDict(TypedDict, total=False):
    expression: str

class MatchCondition(Part[MatchConditionDict]):
    name: str
    expression: str

class MatchConditionDict(TypedDict, total=False):
    name: Required[str]
    expression: Required[str]

class MatchResources(Part[MatchResourcesDict]):
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: list[NamedRuleWithOperations] | None = None
    exclude_resource_rules: list[NamedRuleWithOperations] | None = None
    match_policy: str | None = None

class MatchResourcesDict(TypedDict, total=False):
    namespaceSelector: LabelSelectorDict
    objectSelector: LabelSelectorDict
    resourceRules: list[NamedRuleWithOperationsDict]
    excludeResourceRules: list[NamedRuleWithOperationsDict]
    matchPolicy: str

class MutatingAdmissionPolicy(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingadmissionpolicies",
    namespaced=False,
):
    """MutatingAdmissionPolicy of admissionregistration.k8s.io/v1, cluster-scoped."""

    spec: MutatingAdmissionPolicySpecDict = {}

class MutatingAdmissionPolicyBinding(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingadmissionpolicybindings",
    namespaced=False,
):
    """MutatingAdmissionPolicyBinding of admissionregistration.k8s.io/v1, cluster-scoped."""

    spec: MutatingAdmissionPolicyBindingSpecDict = {}

class MutatingAdmissionPolicyBindingSpec(Part[MutatingAdmissionPolicyBindingSpecDict]):
    policy_name: str | None = None
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None

class MutatingAdmissionPolicyBindingSpecDict(TypedDict, total=False):
    policyName: str
    paramRef: ParamRefDict
    matchResources: MatchResourcesDict

class MutatingAdmissionPolicySpec(Part[MutatingAdmissionPolicySpecDict]):
    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    variables: list[Variable] | None = None
    mutations: list[Mutation] | None = None
    failure_policy: str | None = None
    match_conditions: list[MatchCondition] | None = None
    reinvocation_policy: str | None = None

class MutatingAdmissionPolicySpecDict(TypedDict, total=False):
    paramKind: ParamKindDict
    matchConstraints: MatchResourcesDict
    variables: list[VariableDict]
    mutations: list[MutationDict]
    failurePolicy: str
    matchConditions: list[MatchConditionDict]
    reinvocationPolicy: str

class MutatingWebhook(Part[MutatingWebhookDict]):
    name: str
    client_config: WebhookClientConfig
    rules: list[RuleWithOperations] | None = None
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: str
    timeout_seconds: int | None = None
    admission_review_versions: list[str]
    reinvocation_policy: str | None = None
    match_conditions: list[MatchCondition] | None = None

class MutatingWebhookDict(TypedDict, total=False):
    name: Required[str]
    clientConfig: Required[WebhookClientConfigDict]
    rules: list[RuleWithOperationsDict]
    failurePolicy: str
    matchPolicy: str
    namespaceSelector: LabelSelectorDict
    objectSelector: LabelSelectorDict
    sideEffects: Required[str]
    timeoutSeconds: int
    admissionReviewVersions: Required[list[str]]
    reinvocationPolicy: str
    matchConditions: list[MatchConditionDict]

class MutatingWebhookConfiguration(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingwebhookconfigurations",
    namespaced=False,
):
    """MutatingWebhookConfiguration of admissionregistration.k8s.io/v1, cluster-scoped."""

    webhooks: list[MutatingWebhookDict] | None = None

class Mutation(Part[MutationDict]):
    patch_type: str
    apply_configuration: ApplyConfiguration | None = None
    json_patch: JSONPatch | None = None

class MutationDict(TypedDict, total=False):
    patchType: Required[str]
    applyConfiguration: ApplyConfigurationDict
    jsonPatch: JSONPatchDict

class NamedRuleWithOperations(Part[NamedRuleWithOperationsDict]):
    resource_names: list[str] | None = None
    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None

class NamedRuleWithOperationsDict(TypedDict, total=False):
    resourceNames: list[str]
    operations: list[str]
    apiGroups: list[str]
    apiVersions: list[str]
    resources: list[str]
    scope: str

class ParamKind(Part[ParamKindDict]):
    api_version: str | None = None
    kind: str | None = None

class ParamKindDict(TypedDict, total=False):
    apiVersion: str
    kind: str

class ParamRef(Part[ParamRefDict]):
    name: str | None = None
    namespace: str | None = None
    selector: LabelSelector | None = None
    parameter_not_found_action: str | None = None

class ParamRefDict(TypedDict, total=False):
    name: str
    namespace: str
    selector: LabelSelectorDict
    parameterNotFoundAction: str

class RuleWithOperations(Part[RuleWithOperationsDict]):
    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None

class RuleWithOperationsDict(TypedDict, total=False):
    operations: list[str]
    apiGroups: list[str]
    apiVersions: list[str]
    resources: list[str]
    scope: str

class ServiceReference(Part[ServiceReferenceDict]):
    namespace: str
    name: str
    path: str | None = None
    port: int | None = None

class ServiceReferenceDict(TypedDict, total=False):
    namespace: Required[str]
    name: Required[str]
    path: str
    port: int

class TypeChecking(Part[TypeCheckingDict]):
    expression_warnings: list[ExpressionWarning] | None = None

class TypeCheckingDict(TypedDict, total=False):
    expressionWarnings: list[ExpressionWarningDict]

class ValidatingAdmissionPolicy(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicies",
    namespaced=False,
):
    """ValidatingAdmissionPolicy of admissionregistration.k8s.io/v1, cluster-scoped."""

    spec: ValidatingAdmissionPolicySpecDict = {}
    status: ValidatingAdmissionPolicyStatusDict = {}

class ValidatingAdmissionPolicyBinding(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicybindings",
    namespaced=False,
):
    """ValidatingAdmissionPolicyBinding of admissionregistration.k8s.io/v1, cluster-scoped."""

    spec: ValidatingAdmissionPolicyBindingSpecDict = {}

class ValidatingAdmissionPolicyBindingSpec(Part[ValidatingAdmissionPolicyBindingSpecDict]):
    policy_name: str
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    validation_actions: list[str]

class ValidatingAdmissionPolicyBindingSpecDict(TypedDict, total=False):
    policyName: str
    paramRef: ParamRefDict
    matchResources: MatchResourcesDict
    validationActions: list[str]

class ValidatingAdmissionPolicySpec(Part[ValidatingAdmissionPolicySpecDict]):
    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    validations: list[Validation] | None = None
    failure_policy: str | None = None
    audit_annotations: list[AuditAnnotation] | None = None
    match_conditions: list[MatchCondition] | None = None
    variables: list[Variable] | None = None

class ValidatingAdmissionPolicySpecDict(TypedDict, total=False):
    paramKind: ParamKindDict
    matchConstraints: MatchResourcesDict
    validations: list[ValidationDict]
    failurePolicy: str
    auditAnnotations: list[AuditAnnotationDict]
    matchConditions: list[MatchConditionDict]
    variables: list[VariableDict]

class ValidatingAdmissionPolicyStatus(Part[ValidatingAdmissionPolicyStatusDict]):
    observed_generation: int | None = None
    type_checking: TypeChecking | None = None
    conditions: list[Condition] | None = None

class ValidatingAdmissionPolicyStatusDict(TypedDict, total=False):
    observedGeneration: int
    typeChecking: TypeCheckingDict
    conditions: list[ConditionDict]

class ValidatingWebhook(Part[ValidatingWebhookDict]):
    name: str
    client_config: WebhookClientConfig
    rules: list[RuleWithOperations] | None = None
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: str
    timeout_seconds: int | None = None
    admission_review_versions: list[str]
    match_conditions: list[MatchCondition] | None = None

class ValidatingWebhookDict(TypedDict, total=False):
    name: Required[str]
    clientConfig: Required[WebhookClientConfigDict]
    rules: list[RuleWithOperationsDict]
    failurePolicy: str
    matchPolicy: str
    namespaceSelector: LabelSelectorDict
    objectSelector: LabelSelectorDict
    sideEffects: Required[str]
    timeoutSeconds: int
    admissionReviewVersions: Required[list[str]]
    matchConditions: list[MatchConditionDict]

class ValidatingWebhookConfiguration(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingwebhookconfigurations",
    namespaced=False,
):
    """ValidatingWebhookConfiguration of admissionregistration.k8s.io/v1, cluster-scoped."""

    webhooks: list[ValidatingWebhookDict] | None = None

class Validation(Part[ValidationDict]):
    expression: str
    message: str | None = None
    reason: str | None = None
    message_expression: str | None = None

class ValidationDict(TypedDict, total=False):
    expression: Required[str]
    message: str
    reason: str
    messageExpression: str

class Variable(Part[VariableDict]):
    name: str
    expression: str

class VariableDict(TypedDict, total=False):
    name: Required[str]
    expression: Required[str]

class WebhookClientConfig(Part[WebhookClientConfigDict]):
    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: str | None = None

class WebhookClientConfigDict(TypedDict, total=False):
    url: str
    service: ServiceReferenceDict
    caBundle: str
