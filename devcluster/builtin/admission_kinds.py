"""Webhook configurations and admission policies."""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from devcluster.builtin.base import BuiltinStrategy, Object, StoredStrategy, child, columns
from devcluster.builtin.checks import label_selector, texts
from devcluster.clock import Clock
from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_required,
    field_unsupported,
)
from devcluster.kinds.strategy import Context
from devcluster.names import dns_subdomain, label_key
from devcluster.schema.cel import CompileError, compile_expression
from devcluster.schema.cel.kubernetes_library import AUTHORIZER
from devcluster.schema.cel.types import BOOL, DYN, NULL, STRING, Field, Type, list_of, object_of
from devcluster.types.table import choices

FAILURE_POLICIES = choices("admissionregistration.v1.ValidatingWebhook.failurePolicy")
MATCH_POLICIES = choices("admissionregistration.v1.ValidatingWebhook.matchPolicy")
SIDE_EFFECTS = ("None", "NoneOnDryRun")
REINVOCATION = choices("admissionregistration.v1.MutatingWebhook.reinvocationPolicy")
OPERATIONS = choices("admissionregistration.v1.RuleWithOperations.operations")
SCOPES = choices("admissionregistration.v1.RuleWithOperations.scope")
RULES = ("resourceRules", "excludeResourceRules")
MAXIMUM_SECONDS = 30
SEGMENTS = 3
CONDITION_VARIABLES = ("object", "oldObject", "request")
ACTIONS = ("Audit", "Deny", "Warn")
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
NO_EXPRESSION = "expression is not specified"
MADE_TYPES = ("JSONPatch", "Object")
PATCHES = {
    "ApplyConfiguration": ("applyConfiguration", Type("Object"), "Object"),
    "JSONPatch": ("jsonPatch", list_of(Type("JSONPatch")), "list(JSONPatch)"),
}
"""By the type of a mutation: its field, and the type of its expression."""
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def policy_scope(spec: Object) -> dict[str, Type]:
    """Return the types of the variables in a policy's expressions."""
    fields: dict[str, Field] = {}
    scope = dict.fromkeys((*CONDITION_VARIABLES, "namespaceObject"), DYN)
    scope["variables"] = object_of(fields)
    scope["authorizer"] = AUTHORIZER
    if spec.get("paramKind") is not None:
        scope["params"] = DYN
    for each in spec.get("variables") or ():
        # A variable can use earlier variables; another check reports its errors.
        with contextlib.suppress(CompileError):
            program = compile_expression(each.get("expression", ""), scope)
            fields[each["name"]] = Field(each["name"], program.type)
    return scope


def _match_defaults(path: str, *rules: str) -> dict[str, Any]:
    return {
        f"{path}.matchPolicy": "Equivalent",
        f"{path}.namespaceSelector": {},
        f"{path}.objectSelector": {},
        **{f"{path}.{name}.*.scope": "*" for name in rules},
    }


class WebhooksStrategy(StoredStrategy):
    """The rules of configurations of webhooks, of both kinds."""

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

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        wrong: list[FieldError] = []
        names: set[str] = set()
        for index, webhook in enumerate(new.get("webhooks") or ()):
            path, name = f"webhooks[{index}]", webhook.get("name", "")
            wrong += _webhook(webhook, path)
            wrong += _review_versions(webhook, f"{path}.admissionReviewVersions")
            if name in names:
                wrong.append(field_duplicate(f"{path}.name", name))
            names.add(name)
        return wrong

    def cells(self, obj: Object) -> list[Any]:
        return [len(obj.get("webhooks") or ())]


class AdmissionPolicyStrategy(BuiltinStrategy):
    """The rules of admission policies, whose expressions have to compile."""

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

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec, mutating = new["spec"], not self.status_fields
        wrong = _enum(spec, "failurePolicy", FAILURE_POLICIES, "spec")
        if spec.get("paramKind") is not None:
            wrong += [
                field_required(f"spec.paramKind.{each}")
                for each in ("apiVersion", "kind")
                if not spec["paramKind"].get(each)
            ]
        match = spec.get("matchConstraints")
        wrong += (
            [field_required("spec.matchConstraints")]
            if match is None
            else _match(match, "spec.matchConstraints")
        )
        scope = policy_scope(spec)
        wrong += _conditions(spec.get("matchConditions") or (), "spec.matchConditions", scope)
        wrong += _variables(spec, scope)
        if mutating:
            return wrong + _mutations(spec, scope)
        return wrong + _validations(spec, scope, new["metadata"].get("name", ""))

    def cells(self, obj: Object) -> list[Any]:
        spec = obj.get("spec") or {}
        kind = spec.get("paramKind")
        shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"
        count = len(spec.get(self._parts) or ())
        return [count, shown]


class AdmissionPolicyBindingStrategy(StoredStrategy):
    """The rules of the bindings of policies."""

    columns = columns("Name | PolicyName | ParamRef | Age")
    has_generation = True
    unconditional_update = False
    defaults = {"spec": {}, **_match_defaults("spec.matchResources", *RULES)}

    def __init__(self, clock: Clock, *, mutating: bool) -> None:
        super().__init__(clock)
        self._mutating = mutating

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec, wrong = new["spec"], []
        name = spec.get("policyName", "")
        wrong += (
            texts(dns_subdomain(name), "spec.policyName", name)
            if name
            else [field_required("spec.policyName")]
        )
        if spec.get("paramRef") is not None:
            wrong += _param_ref(spec["paramRef"], "spec.paramRef")
        if spec.get("matchResources") is not None:
            wrong += _match(spec["matchResources"], "spec.matchResources")
        return wrong if self._mutating else wrong + _actions(spec.get("validationActions") or [])

    def cells(self, obj: Object) -> list[Any]:
        spec = obj.get("spec") or {}
        reference, shown = spec.get("paramRef"), "<unset>"
        if reference and reference.get("name"):
            shown = f"{reference.get('namespace') or '*'}/{reference['name']}"
        return [spec.get("policyName", ""), shown]


def _webhook(webhook: Object, path: str) -> list[FieldError]:
    wrong = _qualified(webhook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        wrong += _rule(rule, f"{path}.rules[{index}]")
    for name, allowed in (
        ("failurePolicy", FAILURE_POLICIES),
        ("matchPolicy", MATCH_POLICIES),
        ("reinvocationPolicy", REINVOCATION),
    ):
        wrong += _enum(webhook, name, allowed, path)
    effects = webhook.get("sideEffects")
    if effects is None:
        wrong.append(field_required(f"{path}.sideEffects", f"must specify one of {', '.join(SIDE_EFFECTS)}"))
    elif effects not in SIDE_EFFECTS:
        wrong.append(field_unsupported(f"{path}.sideEffects", effects, SIDE_EFFECTS))
    seconds = webhook["timeoutSeconds"]
    if not 1 <= seconds <= MAXIMUM_SECONDS:
        text = f"the timeout value must be between 1 and {MAXIMUM_SECONDS} seconds"
        wrong.append(field_invalid(f"{path}.timeoutSeconds", seconds, text))
    for name in ("namespaceSelector", "objectSelector"):
        wrong += label_selector(webhook.get(name), f"{path}.{name}")
    scope = dict.fromkeys(CONDITION_VARIABLES, DYN)
    wrong += _conditions(webhook.get("matchConditions") or (), f"{path}.matchConditions", scope)
    return wrong + client_config(webhook["clientConfig"], f"{path}.clientConfig")


def _enum(holder: Object, name: str, allowed: Sequence[str], path: str) -> list[FieldError]:
    value = holder.get(name)
    return [] if value is None or value in allowed else [field_unsupported(f"{path}.{name}", value, allowed)]


def _match(match: Object, path: str) -> list[FieldError]:
    wrong = _enum(match, "matchPolicy", MATCH_POLICIES, path)
    for name in ("namespaceSelector", "objectSelector"):
        wrong += label_selector(match.get(name), f"{path}.{name}")
    for name in RULES:
        for index, rule in enumerate(match.get(name) or ()):
            wrong += _rule(rule, f"{path}.{name}[{index}]")
    return wrong


def _conditions(conditions: Sequence[Object], path: str, scope: Mapping[str, Type]) -> list[FieldError]:
    wrong: list[FieldError] = []
    names: set[str] = set()
    for index, each in enumerate(conditions):
        here, name = f"{path}[{index}]", each.get("name", "")
        wrong += _expression(each, f"{here}.expression", scope, BOOL)
        if not name:
            wrong.append(field_required(f"{here}.name"))
        else:
            wrong += texts(label_key(name), f"{here}.name", name)
            if name in names:
                wrong.append(field_duplicate(f"{here}.name", name))
        names.add(name)
    return wrong


def _expression(
    holder: Object,
    path: str,
    scope: Mapping[str, Type],
    *wanted: Type,
    shown: str = "",
    absent: str = "",
    types: Sequence[str] = (),
) -> list[FieldError]:
    """Check the expression in a field: it is there, compiles, and has one of the wanted types."""
    expression = holder.get(path.rpartition(".")[2], "").strip()
    if not expression:
        return [field_required(path, absent)]
    try:
        program = compile_expression(expression, scope, types=types)
    except CompileError as error:
        return [field_invalid(path, expression, f"compilation failed: {error}")]
    if not wanted or program.type in {DYN, *wanted}:
        return []
    text = f"must evaluate to {shown or wanted[0]} but got {program.type}"
    return [field_invalid(path, expression, text)]


def _variables(spec: Object, scope: Mapping[str, Type]) -> list[FieldError]:
    wrong: list[FieldError] = []
    for index, each in enumerate(spec.get("variables") or ()):
        here, name = f"spec.variables[{index}]", each.get("name", "")
        if not name:
            wrong.append(field_required(f"{here}.name"))
        elif not IDENTIFIER.fullmatch(name):
            wrong.append(field_invalid(f"{here}.name", name, "must be a valid CEL identifier"))
        wrong += _expression(each, f"{here}.expression", scope, absent=NO_EXPRESSION)
    return wrong


def _validations(spec: Object, scope: Mapping[str, Type], name: str) -> list[FieldError]:
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        text = "validations or auditAnnotations must contain at least one item"
        return [field_required(f"spec.{each}", text) for each in ("validations", "auditAnnotations")]
    wrong: list[FieldError] = []
    for index, each in enumerate(validations):
        here, message = f"spec.validations[{index}]", each.get("message", "")
        wrong += _expression(each, f"{here}.expression", scope, BOOL, absent=NO_EXPRESSION)
        if each.get("messageExpression"):
            wrong += _expression(each, f"{here}.messageExpression", scope, STRING)
        if message and not message.strip():
            wrong.append(field_invalid(f"{here}.message", message, "must be non-empty if specified"))
        elif "\n" in message.strip():
            wrong.append(field_invalid(f"{here}.message", message, "must not contain line breaks"))
        wrong += _enum(each, "reason", REASONS, here)
    keys: set[str] = set()
    for index, each in enumerate(annotations):
        here, key = f"spec.auditAnnotations[{index}]", each.get("key", "")
        wrong += texts(label_key(f"{name}/{key}"), f"{here}.key", f"{name}/{key}")
        if key in keys:
            wrong.append(field_duplicate(f"{here}.key", key))
        keys.add(key)
        shown = "one of [string null_type]"
        wrong += _expression(each, f"{here}.valueExpression", scope, STRING, NULL, shown=shown)
    return wrong


def _mutations(spec: Object, scope: Mapping[str, Type]) -> list[FieldError]:
    wrong = _enum(spec, "reinvocationPolicy", REINVOCATION, "spec")
    if not spec.get("reinvocationPolicy"):
        wrong = [field_required("spec.reinvocationPolicy")]
    mutations = spec.get("mutations") or ()
    if not mutations:
        wrong.append(field_required("spec.mutations", "mutations must contain at least one item"))
    for index, each in enumerate(mutations):
        here, kind = f"spec.mutations[{index}]", each.get("patchType", "")
        if kind not in PATCHES:
            wrong.append(field_unsupported(f"{here}.patchType", kind, tuple(PATCHES)))
            continue
        for other, (field, wanted, shown) in PATCHES.items():
            path, value = f"{here}.{field}", each.get(field)
            if other != kind:
                if value is not None:
                    text = f"must not be specified when patchType is {kind}"
                    wrong.append(field_invalid(path, f"{{{field}}}", text))
            elif value is None:
                wrong.append(field_required(path, f"must be specified when patchType is {kind}"))
            else:
                wrong += _expression(
                    value, f"{path}.expression", scope, wanted, shown=shown, types=MADE_TYPES
                )
    return wrong


def _param_ref(reference: Object, path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    name, selector, action = (reference.get(each) for each in ("name", "selector", "parameterNotFoundAction"))
    if name and selector is not None:
        text = "name and selector are mutually exclusive"
        wrong += [field_forbidden(f"{path}.{each}", text) for each in ("name", "selector")]
    elif not name and selector is None:
        wrong.append(field_required(path, "one of name or selector must be specified"))
    if not action:
        wrong.append(field_required(f"{path}.parameterNotFoundAction"))
    return wrong + _enum(reference, "parameterNotFoundAction", ("Deny", "Allow"), path)


def _actions(actions: list[str]) -> list[FieldError]:
    path = "spec.validationActions"
    if not actions:
        return [field_required(path, "at least one validation action is required")]
    wrong: list[FieldError] = []
    if {"Deny", "Warn"} <= {*actions}:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        wrong.append(field_invalid(path, actions, text))
    for index, action in enumerate(actions):
        if action not in ACTIONS:
            wrong.append(field_unsupported(f"{path}[{index}]", action, ACTIONS))
        elif action in actions[:index]:
            wrong.append(field_duplicate(f"{path}[{index}]", action))
    return wrong


def _qualified(name: str, path: str) -> list[FieldError]:
    if not name:
        return [field_required(path)]
    bad = dns_subdomain(name)
    if bad:
        return [field_invalid(path, name, ",".join(bad))]
    if len(name.split(".")) < SEGMENTS:
        text = "should be a domain with at least three segments separated by dots"
        return [field_invalid(path, name, text)]
    return []


def _rule(rule: Object, path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    for name in ("operations", "apiGroups", "apiVersions", "resources"):
        values = rule.get(name) or ()
        here = f"{path}.{name}"
        if not values:
            wrong.append(field_required(here))
        elif "*" in values and len(values) > 1 and name != "resources":
            text = (
                "if '*' is present, must not specify other "
                + {
                    "operations": "operations",
                    "apiGroups": "API groups",
                    "apiVersions": "API versions",
                }[name]
            )
            wrong.append(field_invalid(here, values, text))
        for index, value in enumerate(values):
            if name in {"apiVersions", "resources"} and not value:
                wrong.append(field_required(f"{here}[{index}]"))
            if name == "operations" and value not in OPERATIONS:
                wrong.append(field_unsupported(f"{here}[{index}]", value, OPERATIONS))
    if rule["scope"] not in SCOPES:
        wrong.append(field_unsupported(f"{path}.scope", rule["scope"], SCOPES))
    return wrong


def client_config(config: Object, path: str) -> list[FieldError]:
    """Check a webhook's address: either a URL or a service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [field_required(path, "exactly one of url or service is required")]
    if service is None:
        return _url(str(url), f"{path}.url")
    return _service(service, f"{path}.service")


def _service(service: Object, path: str) -> list[FieldError]:
    wrong = [field_required(f"{path}.{name}") for name in ("name", "namespace") if not service.get(name)]
    target = service.get("path")
    if target is not None and not target.startswith("/"):
        wrong.append(field_invalid(f"{path}.path", target, "must start with a '/'"))
    return wrong


def _url(url: str, path: str) -> list[FieldError]:
    form = "; desired format: https://host[/path]"
    parts = urllib.parse.urlsplit(url)
    wrong: list[FieldError] = []
    if parts.scheme != "https":
        text = f"'https' is the only allowed URL scheme{form}"
        wrong.append(field_invalid(path, parts.scheme, text))
    if not parts.netloc:
        wrong.append(field_invalid(path, parts.netloc, f"host must be specified{form}"))
    if parts.username is not None:
        wrong.append(field_invalid(path, parts.username, "user information is not permitted in the URL"))
    if parts.fragment:
        wrong.append(field_invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        wrong.append(field_invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return wrong


def _review_versions(webhook: Object, path: str) -> list[FieldError]:
    versions = webhook.get("admissionReviewVersions") or []
    if not versions:
        return [field_required(path, "must specify one of v1, v1beta1")]
    wrong: list[FieldError] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            wrong.append(field_duplicate(f"{path}[{index}]", version))
    if not {"v1", "v1beta1"} & set(versions):
        wrong.append(field_invalid(path, versions, "must include at least one of v1, v1beta1"))
    return wrong
