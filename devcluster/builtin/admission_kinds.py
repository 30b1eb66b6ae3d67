"""Webhook configurations and admission policies."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import BuiltinStrategy, Object, StoredStrategy, columns
from devcluster.builtin.checks import label_selector, texts
from devcluster.builtin.fields import child
from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_invalid,
    field_required,
    field_unsupported,
)
from devcluster.names import dns_subdomain, label_key
from devcluster.schema.cel import CompileError, compile_expression
from devcluster.schema.cel.types import BOOL, DYN
from devcluster.types.table import choices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.clock import Clock
    from devcluster.kinds.strategy import Context

__all__ = ["AdmissionPolicyBindingStrategy", "AdmissionPolicyStrategy", "WebhooksStrategy"]

FAILURE_POLICIES = choices("admissionregistration.v1.ValidatingWebhook.failurePolicy")
MATCH_POLICIES = choices("admissionregistration.v1.ValidatingWebhook.matchPolicy")
SIDE_EFFECTS = ("None", "NoneOnDryRun")
REINVOCATION = choices("admissionregistration.v1.MutatingWebhook.reinvocationPolicy")
OPERATIONS = choices("admissionregistration.v1.RuleWithOperations.operations")
SCOPES = choices("admissionregistration.v1.RuleWithOperations.scope")
MAXIMUM_SECONDS = 30
SEGMENTS = 3
CONDITION_VARIABLES = ("object", "oldObject", "request")


class WebhooksStrategy(StoredStrategy):
    """The rules of configurations of webhooks, of both kinds."""

    columns = columns("Name | Webhooks# | Age")
    has_generation = True
    unconditional_update = False

    def __init__(self, clock: Clock, *, mutating: bool) -> None:
        """Set up the strategy; `mutating` webhooks may be reinvoked."""
        super().__init__(clock)
        self._mutating = mutating

    def default(self, obj: Object) -> None:
        """Set the API's defaults: match widely and fail closed."""
        for webhook in obj.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            _default_match(webhook)
            webhook.setdefault("timeoutSeconds", 10)
            child(webhook, "clientConfig")
            service = webhook["clientConfig"].get("service")
            if service is not None:
                service.setdefault("port", 443)
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")
            webhook.setdefault("admissionReviewVersions", None)
            if self._mutating:
                webhook.setdefault("reinvocationPolicy", "Never")

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check each webhook; names must be unique."""
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

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the number of webhooks."""
        return [obj["metadata"].get("name", ""), len(obj.get("webhooks") or ()), self.created(obj)]


class AdmissionPolicyStrategy(BuiltinStrategy):
    """Stored: nothing is checked by them."""

    has_generation = True
    unconditional_update = False

    def __init__(self, clock: Clock, *, mutating: bool) -> None:
        """Set up the strategy; a mutating policy has mutations instead of validations, and no status."""
        super().__init__(clock)
        self._parts = "mutations" if mutating else "validations"
        self.columns = columns(f"Name | {self._parts.title()}# | ParamKind | Age")
        self.status_fields = () if mutating else ("status",)

    def default(self, obj: Object) -> None:
        """Set the same defaults as for webhooks."""
        spec = child(obj, "spec")
        spec.setdefault("failurePolicy", "Fail")
        if spec.get("matchConstraints") is not None:
            _default_rules(spec["matchConstraints"])
        if self.status_fields:
            child(obj, "status")

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the number of validations or mutations."""
        spec = obj.get("spec") or {}
        kind = spec.get("paramKind")
        shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"
        count = len(spec.get(self._parts) or ())
        return [obj["metadata"].get("name", ""), count, shown, self.created(obj)]


class AdmissionPolicyBindingStrategy(StoredStrategy):
    """Stored."""

    columns = columns("Name | PolicyName | ParamRef | Age")
    has_generation = True
    unconditional_update = False

    def default(self, obj: Object) -> None:
        """Set the same defaults as for webhooks."""
        match = child(obj, "spec").get("matchResources")
        if match is not None:
            _default_rules(match)

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the policy."""
        spec = obj.get("spec") or {}
        reference, shown = spec.get("paramRef"), "<unset>"
        if reference and reference.get("name"):
            shown = f"{reference.get('namespace') or '*'}/{reference['name']}"
        return [obj["metadata"].get("name", ""), spec.get("policyName", ""), shown, self.created(obj)]


def _default_rules(match: Object) -> None:
    _default_match(match)
    for name in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(name) or ():
            rule.setdefault("scope", "*")


def _default_match(match: Object) -> None:
    match.setdefault("matchPolicy", "Equivalent")
    child(match, "namespaceSelector")
    child(match, "objectSelector")


def _webhook(webhook: Object, path: str) -> list[FieldError]:
    wrong = _qualified(webhook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        wrong += _rule(rule, f"{path}.rules[{index}]")
    for name, allowed in (
        ("failurePolicy", FAILURE_POLICIES),
        ("matchPolicy", MATCH_POLICIES),
        ("reinvocationPolicy", REINVOCATION),
    ):
        value = webhook.get(name)
        if value is not None and value not in allowed:
            wrong.append(field_unsupported(f"{path}.{name}", value, allowed))
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
    wrong += _conditions(webhook.get("matchConditions") or (), f"{path}.matchConditions")
    return wrong + client_config(webhook["clientConfig"], f"{path}.clientConfig")


def _conditions(conditions: Sequence[Object], path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    names: set[str] = set()
    for index, each in enumerate(conditions):
        here, name, expression = f"{path}[{index}]", each.get("name", ""), each.get("expression", "").strip()
        if not expression:
            wrong.append(field_required(f"{here}.expression"))
        elif problem := _problem(expression):
            wrong.append(field_invalid(f"{here}.expression", expression, problem))
        if not name:
            wrong.append(field_required(f"{here}.name"))
        else:
            wrong += texts(label_key(name), f"{here}.name", name)
            if name in names:
                wrong.append(field_duplicate(f"{here}.name", name))
        names.add(name)
    return wrong


def _problem(expression: str) -> str:
    """Return the error in a condition, or ""."""
    try:
        program = compile_expression(expression, dict.fromkeys(CONDITION_VARIABLES, DYN))
    except CompileError as error:
        return f"compilation failed: {error}"
    return "" if program.type in {BOOL, DYN} else f"must evaluate to bool but got {program.type}"


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
