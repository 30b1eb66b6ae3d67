"""Strategies (defaults, validation, table columns) of webhook configurations and admission policies."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from devcluster.builtin.base import BuiltinStrategy, Object, StoredStrategy, child, columns
from devcluster.builtin.checks import check_selector
from devcluster.clock import Clock
from devcluster.kinds.field import Field
from devcluster.names import dns_subdomain, label_key
from devcluster.schema.cel import CompileError, compile_expression
from devcluster.schema.cel.kubernetes_library import AUTHORIZER
from devcluster.schema.cel.types import BOOL, DYN, NULL, STRING, Type, list_of, object_of
from devcluster.schema.cel.types import Field as TypeField
from devcluster.types.table import choices

SIDE_EFFECTS = ("None", "NoneOnDryRun")
RULES = ("resourceRules", "excludeResourceRules")
MAXIMUM_SECONDS = 30
SEGMENTS = 3
CONDITION_VARIABLES = ("object", "oldObject", "request")
ACTIONS = ("Audit", "Deny", "Warn")
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
ALONE = {"operations": "operations", "apiGroups": "API groups", "apiVersions": "API versions"}
"""Parts of a rule in which `*` must be the only item, with their names in messages."""
NO_EXPRESSION = "expression is not specified"
MADE_TYPES = ("JSONPatch", "Object")
PATCHES = {
    "ApplyConfiguration": ("applyConfiguration", Type("Object"), "Object"),
    "JSONPatch": ("jsonPatch", list_of(Type("JSONPatch")), "list(JSONPatch)"),
}
"""For each type of mutation: its field, the type of its expression, and the type's name in errors."""
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def policy_scope(spec: Object) -> dict[str, Type]:
    """Return the types of the variables in a policy's expressions."""
    fields: dict[str, TypeField] = {}
    scope = dict.fromkeys((*CONDITION_VARIABLES, "namespaceObject"), DYN)
    scope["variables"] = object_of(fields)
    scope["authorizer"] = AUTHORIZER
    if spec.get("paramKind") is not None:
        scope["params"] = DYN
    for each in spec.get("variables") or ():
        # A variable can use earlier variables; another check reports its errors.
        with contextlib.suppress(CompileError):
            program = compile_expression(each.get("expression", ""), scope)
            fields[each["name"]] = TypeField(each["name"], program.type)
    return scope


def _match_defaults(path: str, *rules: str) -> dict[str, Any]:
    return {
        f"{path}.matchPolicy": "Equivalent",
        f"{path}.namespaceSelector": {},
        f"{path}.objectSelector": {},
        **{f"{path}.{name}.*.scope": "*" for name in rules},
    }


class WebhooksStrategy(StoredStrategy):
    """Strategy (defaults, validation, table columns) of both kinds of webhook configurations."""

    columns = columns("Name | Webhooks# | Age")
    has_generation = True
    unconditional_update = False
    defaults = {
        **_match_defaults("webhooks.*", "rules"),
        "webhooks.*.failurePolicy": "Fail",
        "webhooks.*.timeoutSeconds": 10,
        "webhooks.*.clientConfig": {},
        "webhooks.*.clientConfig.service.port": 443,
        "webhooks.*.admissionReviewVersions": None,
    }

    def __init__(self, clock: Clock, *, mutating: bool) -> None:
        super().__init__(clock)
        self._mutating = mutating

    def default(self, obj: Object) -> None:
        super().default(obj)
        for webhook in (obj.get("webhooks") or ()) if self._mutating else ():
            webhook.setdefault("reinvocationPolicy", "Never")

    def check(self, obj: Field) -> None:
        names: set[str] = set()
        for webhook in obj["webhooks"]:
            _check_webhook(webhook)
            webhook.at("name", "").check_unique(names)

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [len(obj.get("webhooks") or ())]


class AdmissionPolicyStrategy(BuiltinStrategy):
    """Strategy (defaults, validation, table columns) of admission policies; CEL expressions must compile."""

    has_generation = True
    unconditional_update = False
    defaults = {"spec": {}, "spec.failurePolicy": "Fail", **_match_defaults("spec.matchConstraints", *RULES)}

    def __init__(self, clock: Clock, *, mutating: bool) -> None:
        super().__init__(clock)
        self._parts = "mutations" if mutating else "validations"
        self.columns = columns(f"Name | {self._parts.title()}# | ParamKind | Age")
        self.status_fields = () if mutating else ("status",)

    def default(self, obj: Object) -> None:
        super().default(obj)
        if self.status_fields:
            child(obj, "status")

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        _check_enum(spec["failurePolicy"], "ValidatingAdmissionPolicySpec")
        if spec["paramKind"].is_set:
            for name in ("apiVersion", "kind"):
                if not spec["paramKind"][name]:
                    spec["paramKind"][name].required()
        if spec["matchConstraints"].is_set:
            _check_match(spec["matchConstraints"])
        else:
            spec["matchConstraints"].required()
        scope = policy_scope(spec.value)
        _check_conditions(spec["matchConditions"], scope)
        for each in spec["variables"]:
            if not each["name"]:
                each["name"].required()
            elif not IDENTIFIER.fullmatch(each.get("name")):
                each["name"].invalid("must be a valid CEL identifier")
            _check_expression(each["expression"], scope, absent=NO_EXPRESSION)
        if self.status_fields:
            _check_validations(spec, scope, obj["metadata"].get("name", ""))
        else:
            _check_mutations(spec, scope)

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        kind = spec.get("paramKind")
        shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"
        count = len(spec.get(self._parts) or ())
        return [count, shown]


class AdmissionPolicyBindingStrategy(StoredStrategy):
    """Strategy (defaults, validation, table columns) of the bindings of admission policies."""

    columns = columns("Name | PolicyName | ParamRef | Age")
    has_generation = True
    unconditional_update = False
    defaults = {"spec": {}, **_match_defaults("spec.matchResources", *RULES)}

    def __init__(self, clock: Clock, *, mutating: bool) -> None:
        super().__init__(clock)
        self._mutating = mutating

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        spec["policyName"].check_required(dns_subdomain)
        if spec["paramRef"].is_set:
            _check_param_ref(spec["paramRef"])
        if spec["matchResources"].is_set:
            _check_match(spec["matchResources"])
        if not self._mutating:
            _check_actions(spec["validationActions"])

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        reference, shown = spec.get("paramRef"), "<unset>"
        if reference and reference.get("name"):
            shown = f"{reference.get('namespace') or '*'}/{reference['name']}"
        return [spec.get("policyName", ""), shown]


def _check_webhook(webhook: Field) -> None:
    _check_qualified(webhook["name"])
    for rule in webhook["rules"]:
        _check_rule(rule)
    for name in ("failurePolicy", "matchPolicy", "reinvocationPolicy"):
        _check_enum(webhook[name], "MutatingWebhook")
    if webhook["sideEffects"].is_set:
        webhook["sideEffects"].any_of(SIDE_EFFECTS)
    else:
        webhook["sideEffects"].required(f"must specify one of {', '.join(SIDE_EFFECTS)}")
    seconds = webhook["timeoutSeconds"]
    if not 1 <= seconds.value <= MAXIMUM_SECONDS:
        seconds.invalid(f"the timeout value must be between 1 and {MAXIMUM_SECONDS} seconds")
    check_selector(webhook["namespaceSelector"])
    check_selector(webhook["objectSelector"])
    _check_conditions(webhook["matchConditions"], dict.fromkeys(CONDITION_VARIABLES, DYN))
    _check_client(webhook["clientConfig"])
    versions = webhook["admissionReviewVersions"]
    if not versions:
        versions.required("must specify one of v1, v1beta1")
        return
    seen: set[str] = set()
    for version in versions:
        version.check_unique(seen)
    if not {"v1", "v1beta1"} & seen:
        versions.invalid("must include at least one of v1, v1beta1")


def _check_enum(field: Field, owner: str) -> None:
    """Check that a field is missing, or has one of the values that the Go type `owner` allows for it."""
    field.any_of(choices(f"admissionregistration.v1.{owner}.{field.path.rpartition('.')[2]}"))


def _check_match(match: Field) -> None:
    _check_enum(match["matchPolicy"], "MatchResources")
    check_selector(match["namespaceSelector"])
    check_selector(match["objectSelector"])
    for name in RULES:
        for rule in match[name]:
            _check_rule(rule)


def _check_conditions(conditions: Field, scope: Mapping[str, Type]) -> None:
    names: set[str] = set()
    for each in conditions:
        _check_expression(each["expression"], scope, BOOL)
        each["name"].check_required(label_key)
        if each["name"]:
            each["name"].check_unique(names)


def _check_expression(
    field: Field,
    scope: Mapping[str, Type],
    *wanted: Type,
    shown: str = "",
    absent: str = "",
    types: Sequence[str] = (),
) -> None:
    """Check that an expression is present, compiles and has one of the types `wanted`.

    `shown` is the name of the wanted type for errors, `absent` the error for a missing expression. `types`
    are the types that the expression may construct.
    """
    expression = (field.value or "").strip()
    if not expression:
        field.required(absent)
        return
    try:
        program = compile_expression(expression, scope, types=types)
    except CompileError as error:
        field.invalid(f"compilation failed: {error}", expression)
        return
    if wanted and program.type not in {DYN, *wanted}:
        field.invalid(f"must evaluate to {shown or wanted[0]} but got {program.type}", expression)


def _check_validations(spec: Field, scope: Mapping[str, Type], name: str) -> None:
    validations, annotations = spec["validations"], spec["auditAnnotations"]
    if not validations and not annotations:
        for each in (validations, annotations):
            each.required("validations or auditAnnotations must contain at least one item")
    for each in validations:
        _check_expression(each["expression"], scope, BOOL, absent=NO_EXPRESSION)
        if each["messageExpression"]:
            _check_expression(each["messageExpression"], scope, STRING)
        message = each.at("message", "")
        if message and not message.value.strip():
            message.invalid("must be non-empty if specified")
        elif "\n" in message.value.strip():
            message.invalid("must not contain line breaks")
        each["reason"].any_of(REASONS)
    keys: set[str] = set()
    for each in annotations:
        key = each.at("key", "")
        key.check(label_key, f"{name}/{key.value}")
        key.check_unique(keys)
        _check_expression(each["valueExpression"], scope, STRING, NULL, shown="one of [string null_type]")


def _check_mutations(spec: Field, scope: Mapping[str, Type]) -> None:
    if spec["reinvocationPolicy"]:
        _check_enum(spec["reinvocationPolicy"], "MutatingWebhook")
    else:
        spec["reinvocationPolicy"].required()
    if not spec["mutations"]:
        spec["mutations"].required("mutations must contain at least one item")
    for each in spec["mutations"]:
        kind = each.at("patchType", "")
        if kind.value not in PATCHES:
            kind.unsupported(tuple(PATCHES))
            continue
        for other, (name, wanted, shown) in PATCHES.items():
            field = each[name]
            if other != kind.value:
                if field.is_set:
                    field.invalid(f"must not be specified when patchType is {kind.value}", f"{{{name}}}")
            elif field.is_set:
                _check_expression(field["expression"], scope, wanted, shown=shown, types=MADE_TYPES)
            else:
                field.required(f"must be specified when patchType is {kind.value}")


def _check_param_ref(reference: Field) -> None:
    name, selector, action = (reference[each] for each in ("name", "selector", "parameterNotFoundAction"))
    if name and selector.is_set:
        for each in (name, selector):
            each.forbidden("name and selector are mutually exclusive")
    elif not name and not selector.is_set:
        reference.required("one of name or selector must be specified")
    if not action:
        action.required()
    action.any_of(("Deny", "Allow"))


def _check_actions(actions: Field) -> None:
    if not actions:
        actions.required("at least one validation action is required")
        return
    if {"Deny", "Warn"} <= {*actions.value}:
        actions.invalid(
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
    seen: set[str] = set()
    for action in actions:
        if action.value in ACTIONS:
            action.check_unique(seen)
        else:
            action.unsupported(ACTIONS)


def _check_qualified(name: Field) -> None:
    if not name:
        name.required()
    elif wrong := dns_subdomain(name.value):
        name.invalid(",".join(wrong))
    elif len(name.value.split(".")) < SEGMENTS:
        name.invalid("should be a domain with at least three segments separated by dots")


def _check_rule(rule: Field) -> None:
    for name in ("operations", "apiGroups", "apiVersions", "resources"):
        values = rule[name]
        if not values:
            values.required()
        elif name in ALONE and "*" in values.value and len(values.value) > 1:
            values.invalid(f"if '*' is present, must not specify other {ALONE[name]}")
        for value in values:
            if name in {"apiVersions", "resources"} and not value:
                value.required()
            if name == "operations":
                value.any_of(choices("admissionregistration.v1.RuleWithOperations.operations"))
    _check_enum(rule["scope"], "RuleWithOperations")


def _check_client(config: Field) -> None:
    """Check a webhook's clientConfig, which must have either a URL or a service."""
    url, service = config["url"], config["service"]
    if url.is_set == service.is_set:
        config.required("exactly one of url or service is required")
    elif url.is_set:
        url.check_https()
    else:
        for name in ("name", "namespace"):
            if not service[name]:
                service[name].required()
        if not service.get("path", "/").startswith("/"):
            service["path"].invalid("must start with a '/'")
