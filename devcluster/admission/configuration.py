"""Configurations of webhooks and policies, and their match conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from devcluster.api.interfaces import AdmissionInfo
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.schema.cel import CelError, Program, compile_expression
from devcluster.schema.cel.types import DYN
from devcluster.storage.records import Change, Key
from devcluster.storage.selectors import LabelSelector
from devcluster.storage.store import Store

Object = dict[str, Any]


class Conditions:
    """Match conditions of a webhook: CEL expressions that must all be true, compiled at their first use."""

    def __init__(self, conditions: Sequence[Object], *, ignores_failure: bool) -> None:
        self._conditions = conditions
        self._ignores_failure = ignores_failure
        self._programs: list[tuple[str, Program]] | None = None

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def hold(self, request: Object, info: AdmissionInfo) -> bool:
        """Return whether all match conditions are true for the `request` of a review.

        Raises:
            StatusError: a condition cannot be evaluated, none is false, and the webhook's failure policy is
                Fail.
        """
        errors = []
        values = {
            "object": request["object"],
            "oldObject": request["oldObject"],
            "request": {key: value for key, value in request.items() if key not in {"object", "oldObject"}},
        }
        for expression, program in self._compiled():
            try:
                result = program.run(values)
            except CelError as error:
                errors.append(f"expression '{expression}' resulted in error: {error}")
                continue
            if result is False:
                return False
        if not errors:
            return True
        if self._ignores_failure:
            return False
        raise info.refusal(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")

    def _compiled(self) -> list[tuple[str, Program]]:
        if self._programs is None:
            variables = dict.fromkeys(("object", "oldObject", "request"), DYN)
            self._programs = [
                (each["expression"], compile_expression(each["expression"], variables))
                for each in self._conditions
            ]
        return self._programs


_GROUP = "admissionregistration.k8s.io"
_PLURALS = {True: "mutatingwebhookconfigurations", False: "validatingwebhookconfigurations"}
_EXEMPT = frozenset(
    f"{flavour}{kind}"
    for flavour in ("validating", "mutating")
    for kind in ("webhookconfigurations", "admissionpolicies", "admissionpolicybindings")
)
"""Resources that webhooks never intercept, so that a broken webhook can be removed."""
_ANY = "*"
MatcherT = TypeVar("MatcherT", bound="Matcher")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """The rules and selectors that decide to which writes a webhook or policy applies."""

    rules: tuple[Object, ...]
    excluded: tuple[Object, ...] = ()
    """Rules for resources that are excluded."""
    namespaces: LabelSelector
    objects: LabelSelector
    equivalent: bool
    """Whether a rule for one version of a resource also matches its other versions."""

    @classmethod
    def of_policy(cls, match: Object) -> Matcher:
        """Read the constraints of a policy or binding."""
        excluded = tuple(match.get("excludeResourceRules") or ())
        return cls(excluded=excluded, **cls._selection(match, "resourceRules"))

    @staticmethod
    def _selection(spec: Object, rules: str) -> dict[str, Any]:
        return {
            "rules": tuple(spec.get(rules) or ()),
            "namespaces": LabelSelector.of(spec.get("namespaceSelector") or {}),
            "objects": LabelSelector.of(spec.get("objectSelector") or {}),
            "equivalent": spec.get("matchPolicy", "Equivalent") == "Equivalent",
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hook(Matcher):
    """A webhook of a webhook configuration."""

    identity: tuple[str, int]
    """The name of the webhook's configuration, and the webhook's index in it."""
    name: str
    client_config: Object
    conditions: Conditions
    ignores_failure: bool
    """Whether a write continues if the webhook cannot be called."""
    reinvocable: bool
    side_effects: bool
    """Whether the webhook has side effects, which a dry run must not cause."""
    timeout: float
    versions: tuple[str, ...]

    @classmethod
    def of(cls, identity: tuple[str, int], hook: Object) -> Hook:
        """Read a webhook from a configuration."""
        ignores = hook.get("failurePolicy", "Fail") == "Ignore"
        return cls(
            identity=identity,
            name=hook.get("name", ""),
            client_config=hook.get("clientConfig") or {},
            conditions=Conditions(hook.get("matchConditions") or (), ignores_failure=ignores),
            ignores_failure=ignores,
            reinvocable=hook.get("reinvocationPolicy") == "IfNeeded",
            side_effects=hook.get("sideEffects") not in {"None", "NoneOnDryRun"},
            timeout=float(hook.get("timeoutSeconds") or 10),
            versions=tuple(hook.get("admissionReviewVersions") or ()),
            **cls._selection(hook, "rules"),
        )


@dataclasses.dataclass(slots=True)
class Invocation(Generic[MatcherT]):
    """Planned call of a webhook or policy; the objects have the API version that the matching rule names."""

    hook: MatcherT
    resource: Resource
    kind: tuple[str, str, str]
    obj: Object | None = None
    old: Object | None = None


class Configuration:
    """All webhooks in the store; they are read again when a configuration changes."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._hooks: dict[bool, tuple[Hook, ...]] = {}
        self._named: dict[tuple[str, str], bool] = {}
        """Cached results of `names_resource`: whether any rule names a resource in any version."""
        store.subscribe(self._forget)

    def concerns(self, info: AdmissionInfo) -> bool:
        """Return whether a webhook may apply to the write; a fast check, which may be wrongly True."""
        mutating, validating = self.hooks(mutating=True), self.hooks(mutating=False)
        if not mutating and not validating:
            return False
        place = (info.resource.group, info.resource.plural)
        named = self._named.get(place)
        if named is None:
            rules = [rule for hook in (*mutating, *validating) for rule in hook.rules]
            named = self._named[place] = any(names_resource(rule, *place) for rule in rules)
        return named and any(self._resource_for(hook, info) is not None for hook in (*mutating, *validating))

    def hooks(self, *, mutating: bool) -> tuple[Hook, ...]:
        """Return the mutating or the validating webhooks in the order of their calls."""
        hooks = self._hooks.get(mutating)
        if hooks is None:
            hooks = self._hooks[mutating] = tuple(self._read(_PLURALS[mutating]))
        return hooks

    def match(self, hook: MatcherT, info: AdmissionInfo) -> Invocation[MatcherT] | None:
        """Return the planned call, or None if rules or selectors do not match; ignores match conditions."""
        resource = self._resource_for(hook, info)
        if resource is None or not self._namespace_matches(hook, info):
            return None
        if not hook.objects.empty and not any(
            hook.objects.matches(obj["metadata"].get("labels") or {})
            for obj in (info.obj, info.old)
            if obj is not None and "metadata" in obj  # the options of a CONNECT have no metadata
        ):
            return None
        kind = info.kind
        if resource is not info.resource and (kind[0], kind[2]) == (resource.group, resource.kind):
            kind = (resource.group, resource.version, resource.kind)
        return Invocation(hook, resource, kind)

    def _resource_for(self, hook: Matcher, info: AdmissionInfo) -> Resource | None:
        """Return the resource in the version that a rule of `hook` names, or None if no rule matches."""
        resource = info.resource
        if resource.group == _GROUP and resource.plural in _EXEMPT:
            return None
        if any(_rule_matches(rule, info, resource.version) for rule in hook.excluded):
            return None
        for rule in hook.rules:
            if _rule_matches(rule, info, resource.version):
                return resource
        if hook.equivalent:
            others = self._registry.versions(resource.group, resource.plural)
            for rule in hook.rules:
                for other in others:
                    if other is not resource and _rule_matches(rule, info, other.version):
                        return other
        return None

    def _namespace_matches(self, hook: Matcher, info: AdmissionInfo) -> bool:
        selector = hook.namespaces
        is_namespace = info.resource.plural == "namespaces"
        if selector.empty or (not info.namespace and not is_namespace):
            return True
        if is_namespace and not info.subresource and info.operation in {"CREATE", "UPDATE"}:
            assert info.obj is not None
            return selector.matches(info.obj["metadata"].get("labels") or {})
        stored = self._store.get(Key("", "namespaces", "", info.namespace or info.name))
        return stored is not None and selector.matches(stored.labels)

    def _read(self, plural: str) -> Iterator[Hook]:
        for stored in self._store.select(_GROUP, plural):
            for index, hook in enumerate(stored.decode().get("webhooks") or ()):
                yield Hook.of((stored.key.name, index), hook)

    def _forget(self, change: Change) -> None:
        if change.key.group == _GROUP:
            self._hooks.clear()
            self._named.clear()


def _rule_matches(rule: Object, info: AdmissionInfo, version: str) -> bool:
    return (
        _has(rule.get("operations"), info.operation)
        and _has(rule.get("apiGroups"), info.resource.group)
        and _has(rule.get("apiVersions"), version)
        and _in_scope(rule.get("scope") or _ANY, info)
        and (not rule.get("resourceNames") or info.name in rule["resourceNames"])
        and any(_names(each, info.resource.plural, info.subresource) for each in rule.get("resources") or ())
    )


def names_resource(rule: Object, group: str, plural: str) -> bool:
    """Return whether a rule names a resource in any version."""
    return _has(rule.get("apiGroups"), group) and any(
        each.partition("/")[0] in {_ANY, plural} for each in rule.get("resources") or ()
    )


def _in_scope(scope: str, info: AdmissionInfo) -> bool:
    if scope == _ANY:
        return True
    within = bool(info.namespace) and info.resource.name != "namespaces"
    return within if scope == "Namespaced" else not within


def _has(items: list[str] | None, wanted: str) -> bool:
    return items is not None and (_ANY in items or wanted in items)


def _names(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, sub = pattern.partition("/")
    return resource in {_ANY, plural} and sub in {_ANY, subresource}
