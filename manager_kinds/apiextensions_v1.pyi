# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Any, Required, TypedDict

from manager.api import Resource
from manager_kinds.factory import Part

__all__ = [
    "CustomResourceColumnDefinition",
    "CustomResourceColumnDefinitionDict",
    "CustomResourceConversion",
    "CustomResourceConversionDict",
    "CustomResourceDefinition",
    "CustomResourceDefinitionCondition",
    "CustomResourceDefinitionConditionDict",
    "CustomResourceDefinitionNames",
    "CustomResourceDefinitionNamesDict",
    "CustomResourceDefinitionSpec",
    "CustomResourceDefinitionSpecDict",
    "CustomResourceDefinitionStatus",
    "CustomResourceDefinitionStatusDict",
    "CustomResourceDefinitionVersion",
    "CustomResourceDefinitionVersionDict",
    "CustomResourceSubresourceScale",
    "CustomResourceSubresourceScaleDict",
    "CustomResourceSubresources",
    "CustomResourceSubresourcesDict",
    "CustomResourceValidation",
    "CustomResourceValidationDict",
    "ExternalDocumentation",
    "ExternalDocumentationDict",
    "JSONSchemaProps",
    "JSONSchemaPropsDict",
    "SelectableField",
    "SelectableFieldDict",
    "ServiceReference",
    "ServiceReferenceDict",
    "ValidationRule",
    "ValidationRuleDict",
    "WebhookClientConfig",
    "WebhookClientConfigDict",
    "WebhookConversion",
    "WebhookConversionDict",
]

class CustomResourceColumnDefinition(Part[CustomResourceColumnDefinitionDict]):
    name: str
    type: str
    format: str | None = None
    description: str | None = None
    priority: int | None = None
    json_path: str

class CustomResourceColumnDefinitionDict(TypedDict, total=False):
    name: Required[str]
    type: Required[str]
    format: str
    description: str
    priority: int
    jsonPath: Required[str]

class CustomResourceConversion(Part[CustomResourceConversionDict]):
    strategy: str
    webhook: WebhookConversion | None = None

class CustomResourceConversionDict(TypedDict, total=False):
    strategy: Required[str]
    webhook: WebhookConversionDict

class CustomResourceDefinition(
    Resource, group="apiextensions.k8s.io", version="v1", plural="customresourcedefinitions", namespaced=False
):
    """CustomResourceDefinition of apiextensions.k8s.io/v1, cluster-scoped."""

    spec: CustomResourceDefinitionSpecDict = {}
    status: CustomResourceDefinitionStatusDict = {}

class CustomResourceDefinitionCondition(Part[CustomResourceDefinitionConditionDict]):
    type: str
    status: str
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None

class CustomResourceDefinitionConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str
    observedGeneration: int

class CustomResourceDefinitionNames(Part[CustomResourceDefinitionNamesDict]):
    plural: str
    singular: str | None = None
    short_names: list[str] | None = None
    kind: str
    list_kind: str | None = None
    categories: list[str] | None = None

class CustomResourceDefinitionNamesDict(TypedDict, total=False):
    plural: Required[str]
    singular: str
    shortNames: list[str]
    kind: Required[str]
    listKind: str
    categories: list[str]

class CustomResourceDefinitionSpec(Part[CustomResourceDefinitionSpecDict]):
    group: str
    names: CustomResourceDefinitionNames
    scope: str
    versions: list[CustomResourceDefinitionVersion]
    conversion: CustomResourceConversion | None = None
    preserve_unknown_fields: bool | None = None

class CustomResourceDefinitionSpecDict(TypedDict, total=False):
    group: str
    names: CustomResourceDefinitionNamesDict
    scope: str
    versions: list[CustomResourceDefinitionVersionDict]
    conversion: CustomResourceConversionDict
    preserveUnknownFields: bool

class CustomResourceDefinitionStatus(Part[CustomResourceDefinitionStatusDict]):
    conditions: list[CustomResourceDefinitionCondition] | None = None
    accepted_names: CustomResourceDefinitionNames | None = None
    stored_versions: list[str] | None = None
    observed_generation: int | None = None

class CustomResourceDefinitionStatusDict(TypedDict, total=False):
    conditions: list[CustomResourceDefinitionConditionDict]
    acceptedNames: CustomResourceDefinitionNamesDict
    storedVersions: list[str]
    observedGeneration: int

class CustomResourceDefinitionVersion(Part[CustomResourceDefinitionVersionDict]):
    name: str
    served: bool
    storage: bool
    deprecated: bool | None = None
    deprecation_warning: str | None = None
    schema_: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additional_printer_columns: list[CustomResourceColumnDefinition] | None = None
    selectable_fields: list[SelectableField] | None = None

class CustomResourceDefinitionVersionDict(TypedDict, total=False):
    name: Required[str]
    served: Required[bool]
    storage: Required[bool]
    deprecated: bool
    deprecationWarning: str
    schema: CustomResourceValidationDict
    subresources: CustomResourceSubresourcesDict
    additionalPrinterColumns: list[CustomResourceColumnDefinitionDict]
    selectableFields: list[SelectableFieldDict]

class CustomResourceSubresourceScale(Part[CustomResourceSubresourceScaleDict]):
    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str | None = None

class CustomResourceSubresourceScaleDict(TypedDict, total=False):
    specReplicasPath: Required[str]
    statusReplicasPath: Required[str]
    labelSelectorPath: str

class CustomResourceSubresources(Part[CustomResourceSubresourcesDict]):
    status: dict[str, Any] | None = None
    scale: CustomResourceSubresourceScale | None = None

class CustomResourceSubresourcesDict(TypedDict, total=False):
    status: dict[str, Any]
    scale: CustomResourceSubresourceScaleDict

class CustomResourceValidation(Part[CustomResourceValidationDict]):
    open_apiv3_schema: JSONSchemaProps | None = None

class CustomResourceValidationDict(TypedDict, total=False):
    openAPIV3Schema: JSONSchemaPropsDict

class ExternalDocumentation(Part[ExternalDocumentationDict]):
    description: str | None = None
    url: str | None = None

class ExternalDocumentationDict(TypedDict, total=False):
    description: str
    url: str

class JSONSchemaProps(Part[JSONSchemaPropsDict]):
    id: str | None = None
    schema_: str | None = None
    ref: str | None = None
    description: str | None = None
    type: str | None = None
    format: str | None = None
    title: str | None = None
    default: Any | None = None
    maximum: float | None = None
    exclusive_maximum: bool | None = None
    minimum: float | None = None
    exclusive_minimum: bool | None = None
    max_length: int | None = None
    min_length: int | None = None
    pattern: str | None = None
    max_items: int | None = None
    min_items: int | None = None
    unique_items: bool | None = None
    multiple_of: float | None = None
    enum: list[Any] | None = None
    max_properties: int | None = None
    min_properties: int | None = None
    required_: list[str] | None = None
    items: Any | None = None
    all_of: list[JSONSchemaProps] | None = None
    one_of: list[JSONSchemaProps] | None = None
    any_of: list[JSONSchemaProps] | None = None
    not_: JSONSchemaProps | None = None
    properties: dict[str, JSONSchemaProps] | None = None
    additional_properties: Any | None = None
    pattern_properties: dict[str, JSONSchemaProps] | None = None
    dependencies: dict[str, Any] | None = None
    additional_items: Any | None = None
    definitions: dict[str, JSONSchemaProps] | None = None
    external_docs: ExternalDocumentation | None = None
    example: Any | None = None
    nullable: bool | None = None
    x_kubernetes_preserve_unknown_fields: bool | None = None
    x_kubernetes_embedded_resource: bool | None = None
    x_kubernetes_int_or_string: bool | None = None
    x_kubernetes_list_map_keys: list[str] | None = None
    x_kubernetes_list_type: str | None = None
    x_kubernetes_map_type: str | None = None
    x_kubernetes_validations: list[ValidationRule] | None = None

JSONSchemaPropsDict = TypedDict(
    "JSONSchemaPropsDict",
    {
        "id": str,
        "$schema": str,
        "$ref": str,
        "description": str,
        "type": str,
        "format": str,
        "title": str,
        "default": Any,
        "maximum": float,
        "exclusiveMaximum": bool,
        "minimum": float,
        "exclusiveMinimum": bool,
        "maxLength": int,
        "minLength": int,
        "pattern": str,
        "maxItems": int,
        "minItems": int,
        "uniqueItems": bool,
        "multipleOf": float,
        "enum": list[Any],
        "maxProperties": int,
        "minProperties": int,
        "required": list[str],
        "items": Any,
        "allOf": list[JSONSchemaPropsDict],
        "oneOf": list[JSONSchemaPropsDict],
        "anyOf": list[JSONSchemaPropsDict],
        "not": JSONSchemaPropsDict,
        "properties": dict[str, JSONSchemaPropsDict],
        "additionalProperties": Any,
        "patternProperties": dict[str, JSONSchemaPropsDict],
        "dependencies": dict[str, Any],
        "additionalItems": Any,
        "definitions": dict[str, JSONSchemaPropsDict],
        "externalDocs": ExternalDocumentationDict,
        "example": Any,
        "nullable": bool,
        "x-kubernetes-preserve-unknown-fields": bool,
        "x-kubernetes-embedded-resource": bool,
        "x-kubernetes-int-or-string": bool,
        "x-kubernetes-list-map-keys": list[str],
        "x-kubernetes-list-type": str,
        "x-kubernetes-map-type": str,
        "x-kubernetes-validations": list[ValidationRuleDict],
    },
    total=False,
)

class SelectableField(Part[SelectableFieldDict]):
    json_path: str

class SelectableFieldDict(TypedDict, total=False):
    jsonPath: Required[str]

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

class ValidationRule(Part[ValidationRuleDict]):
    rule: str
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None

class ValidationRuleDict(TypedDict, total=False):
    rule: Required[str]
    message: str
    messageExpression: str
    reason: str
    fieldPath: str
    optionalOldSelf: bool

class WebhookClientConfig(Part[WebhookClientConfigDict]):
    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: str | None = None

class WebhookClientConfigDict(TypedDict, total=False):
    url: str
    service: ServiceReferenceDict
    caBundle: str

class WebhookConversion(Part[WebhookConversionDict]):
    client_config: WebhookClientConfig | None = None
    conversion_review_versions: list[str]

class WebhookConversionDict(TypedDict, total=False):
    clientConfig: WebhookClientConfigDict
    conversionReviewVersions: Required[list[str]]
