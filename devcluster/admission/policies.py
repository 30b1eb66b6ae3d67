"""Admission policies: CEL expressions that refuse writes, warn about writes, or change objects."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from devcluster.access.rbac import Attributes, RbacAuthorizer
from devcluster.admission.configuration import Configuration, Invocation, Matcher, names_resource
from devcluster.admission.review import make_review
from devcluster.admission.webhooks import converted, decode_patched
from devcluster.api.interfaces import AdmissionInfo, add_warning
from devcluster.builtin.admission_kinds import MADE_TYPES, policy_scope
from devcluster.errors import StatusError, forbidden, internal_error
from devcluster.http_call import User
from devcluster.kinds.registry import Registry
from devcluster.patch.json_patch import apply_operations
from devcluster.patch.merge import merge
from devcluster.patch.shape import Untypable, root_shape
from devcluster.schema.cel import CelError, CompileError, Program, compile_expression
from devcluster.schema.cel.kubernetes_library import Authority
from devcluster.schema.cel.values import LazyFields
from devcluster.storage.records import Change, Key
from devcluster.storage.selectors import LabelSelector
from devcluster.storage.store import Store

Object = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_DENIED = 403
_FLAVOURS = {True: "mutatingadmissionpolic", False: "validatingadmissionpolic"}


class _Failed(Exception):
    """Error of a policy's expression that cannot be evaluated."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Policy:
    """A policy with its compiled expressions."""

    name: str
    spec: Object
    matcher: Matcher
    variables: dict[str, Program]
    programs: dict[str, Program]
    """All other expressions, by their source text."""

    @classmethod
    def of(cls, policy: Object) -> _Policy:
        """Compile a policy; raise CompileError for an invalid one, which an older server may have stored."""
        spec = policy["spec"]
        scope = policy_scope(spec)
        texts = [each["expression"] for each in spec.get("matchConditions") or ()]
        for each in spec.get("validations") or ():
            texts += [each["expression"], each.get("messageExpression", "")]
        for each in spec.get("mutations") or ():
            texts.append((each.get("applyConfiguration") or each.get("jsonPatch"))["expression"])
        return cls(
            policy["metadata"]["name"],
            spec,
            Matcher.of_policy(spec.get("matchConstraints") or {}),
            {
                each["name"]: compile_expression(each["expression"], scope)
                for each in spec.get("variables") or ()
            },
            {text: compile_expression(text.strip(), scope, types=MADE_TYPES) for text in texts if text},
        )

    @property
    def ignores_failure(self) -> bool:
        """Whether the write continues after an expression that cannot be evaluated."""
        return bool(self.spec.get("failurePolicy") == "Ignore")

    def run(self, expression: str, values: Object) -> Any:
        """Evaluate one of the policy's expressions; raise _Failed if that is impossible."""
        try:
            return self.programs[expression].run(values)
        except CelError as error:
            raise _Failed(f"expression '{expression.strip()}' resulted in error: {error}") from error


@dataclasses.dataclass(frozen=True, slots=True)
class _Binding:
    """Policy with one of its bindings; the binding selects the writes."""

    name: str
    policy: _Policy
    spec: Object
    matcher: Matcher | None


class AdmissionPolicies:
    """The plugins ValidatingAdmissionPolicy and MutatingAdmissionPolicy."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        configuration: Configuration,
        authorizer: RbacAuthorizer | None,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._registry = registry
        self._configuration = configuration
        self._known: dict[bool, list[_Binding]] = {}
        store.subscribe(self._forget)

    def concerns(self, info: AdmissionInfo) -> bool:
        """Return whether a policy may apply to the write; a fast check, which may be wrongly True."""
        place = (info.resource.group, info.resource.plural)
        return any(
            names_resource(rule, *place)
            for mutating in (True, False)
            for binding in self._bindings(mutating=mutating)
            for rule in binding.policy.matcher.rules
        )

    async def mutate(self, info: AdmissionInfo) -> bool:
        """Let every mutating policy change `info.obj`, and return whether one did.

        Policies with `reinvocationPolicy: IfNeeded` are evaluated again if a later policy has changed the
        object.

        Raises:
            StatusError: an expression cannot be evaluated, and the policy does not ignore that.
        """
        if info.obj is None:
            return False
        changed = False
        seen: list[_Binding] = []
        again: list[_Binding] = []
        for binding in self._bindings(mutating=True):
            if await self._mutate_by(binding, info):
                changed = True
                again += [each for each in seen if each not in again]
            if binding.policy.spec.get("reinvocationPolicy") == "IfNeeded":
                seen.append(binding)
        for binding in again:
            await self._mutate_by(binding, info)
        return changed

    async def validate(self, info: AdmissionInfo) -> None:
        """Evaluate all validations, add their warnings, then raise StatusError for the first denial."""
        denials: list[StatusError] = []
        for binding in self._bindings(mutating=False):
            actions = binding.spec.get("validationActions") or ()
            async for message, reason in self._violations(binding, info):
                about = f"ValidatingAdmissionPolicy '{binding.policy.name}' with binding '{binding.name}'"
                if "Warn" in actions:
                    add_warning(info.warnings, f"Validation failed for {about}: {message}")
                if "Deny" in actions:
                    denials.append(_denial(info, f"{about} denied request: {message}", reason))
        if denials:
            raise denials[0]

    async def _violations(self, binding: _Binding, info: AdmissionInfo) -> AsyncIterator[tuple[str, str]]:
        """Yield the message and the reason of each failed validation."""
        policy = binding.policy
        invocation = await self._invocation(binding, info)
        if invocation is None:
            return
        try:
            for params in self._params(binding, info):
                values = self._values(policy, invocation, info, params)
                if not _conditions_hold(policy, values):
                    continue
                for validation in policy.spec.get("validations") or ():
                    reason = validation.get("reason", "Invalid")
                    try:
                        if policy.run(validation["expression"], values) is not True:
                            yield _message(policy, validation, values), reason
                    except _Failed as error:
                        if not policy.ignores_failure:
                            yield str(error), "Invalid"
        except _Failed as error:
            if not policy.ignores_failure:
                yield str(error), "Invalid"

    async def _mutate_by(self, binding: _Binding, info: AdmissionInfo) -> bool:
        policy, before = binding.policy, info.obj
        try:
            for params in self._params(binding, info):
                for mutation in policy.spec.get("mutations") or ():
                    invocation = await self._invocation(binding, info)
                    if invocation is None or invocation.obj is None:
                        return False
                    values = self._values(policy, invocation, info, params)
                    if mutation is policy.spec["mutations"][0] and not _conditions_hold(policy, values):
                        break
                    patched = _patched(policy, mutation, values, invocation)
                    if patched != invocation.obj:
                        resource = invocation.resource
                        if not info.subresource:
                            patched = decode_patched(patched, resource)
                            resource.strategy.default(patched)
                        info.obj = await converted(patched, resource, info.resource)
        except _Failed as error:
            if not policy.ignores_failure:
                about = f"policy '{policy.name}' with binding '{binding.name}'"
                raise _denial(info, f"{about} denied request: {error}", "Invalid", code=_DENIED) from error
        return info.obj != before

    async def _invocation(self, binding: _Binding, info: AdmissionInfo) -> Invocation[Matcher] | None:
        if binding.matcher is not None and self._configuration.match(binding.matcher, info) is None:
            return None
        invocation = self._configuration.match(binding.policy.matcher, info)
        if invocation is not None:
            invocation.obj = await converted(info.obj, info.resource, invocation.resource)
            invocation.old = await converted(info.old, info.resource, invocation.resource)
        return invocation

    def _values(
        self, policy: _Policy, invocation: Invocation[Matcher], info: AdmissionInfo, params: Object | None
    ) -> Object:
        """Return the value of each name that the policy's expressions may use, such as `object`."""
        request = make_review("", "v1", info, invocation)["request"]
        namespace = None
        if info.namespace:
            stored = self._store.get(Key("", "namespaces", "", info.namespace))
            namespace = None if stored is None else stored.decode()
        values: Object = {
            "object": request.pop("object"),
            "oldObject": request.pop("oldObject"),
            "request": request,
            "params": params,
            "namespaceObject": namespace,
        }

        def evaluate(name: str) -> Any:
            try:
                return policy.variables[name].run(values)
            except CelError as error:
                raise CelError(f'composited variable "{name}" fails to evaluate: {error}') from error

        values["variables"] = LazyFields(evaluate)
        values["authorizer"] = Authority(functools.partial(self._decide, info.user))
        return values

    def _decide(self, user: User, asked: Mapping[str, str]) -> tuple[bool, str]:
        """Return (allowed, reason) for the action `asked`, by `user` or the ServiceAccount in `asked`."""
        wanted = dict(asked)
        if account := wanted.pop("account", ""):
            namespace = account.split(":")[2]
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
            user = User(account, groups)
        if self._authorizer is None:
            return True, ""
        decision = self._authorizer.authorize(user, Attributes(**wanted))
        return decision.allowed, decision.reason

    def _params(self, binding: _Binding, info: AdmissionInfo) -> Iterator[Object | None]:
        """Yield the parameter objects of a binding, or None without a paramKind or a paramRef.

        Raises:
            _Failed: the kind is unknown, or no object matches and `parameterNotFoundAction` is Deny.
        """
        kind, reference = binding.policy.spec.get("paramKind"), binding.spec.get("paramRef")
        if kind is None or reference is None:
            yield None
            return
        group, _, version = kind["apiVersion"].rpartition("/")
        resource = self._registry.of_kind(group, version, kind["kind"])
        if resource is None:
            shown = f"'{kind['apiVersion']}, Kind={kind['kind']}'"
            text = f"failed to find resource referenced by paramKind: {shown}"
            raise _Failed(f"failed to configure policy: {text}")
        namespace = (reference.get("namespace") or info.namespace) if resource.namespaced else ""
        selector = reference.get("selector")
        found = [
            stored.decode()
            for stored in self._store.select(*resource.stored, namespace)
            if (
                LabelSelector.of(selector).matches(stored.labels)
                if selector is not None
                else stored.key.name == reference.get("name")
            )
        ]
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            text = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise _Failed(f"failed to configure binding: {text}")
        yield from found

    def _bindings(self, *, mutating: bool) -> list[_Binding]:
        """Return the bindings of all valid mutating policies or, if not `mutating`, validating ones."""
        known = self._known.get(mutating)
        if known is None:
            known = self._known[mutating] = list(self._read(_FLAVOURS[mutating]))
        return known

    def _read(self, flavour: str) -> Iterator[_Binding]:
        policies: dict[str, _Policy] = {}
        for stored in self._store.select(_GROUP, f"{flavour}ies"):
            try:
                policies[stored.key.name] = _Policy.of(stored.decode())
            except CompileError:
                continue
        for stored in self._store.select(_GROUP, f"{flavour}ybindings"):
            spec = stored.decode()["spec"]
            match = spec.get("matchResources")
            if (policy := policies.get(spec["policyName"])) is not None:
                matcher = (
                    Matcher.of_policy({"resourceRules": [_EVERY], **match}) if match is not None else None
                )
                yield _Binding(stored.key.name, policy, spec, matcher)

    def _forget(self, change: Change) -> None:
        if change.key.group == _GROUP:
            self._known.clear()


_EVERY = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
"""The rule of a binding without rules, which selects by labels alone."""


def _conditions_hold(policy: _Policy, values: Object) -> bool:
    """Return whether all match conditions are true; raise _Failed if one fails and none is false."""
    failure = None
    for each in policy.spec.get("matchConditions") or ():
        try:
            if policy.run(each["expression"], values) is not True:
                return False
        except _Failed as error:
            failure = error
    if failure is not None:
        raise failure
    return True


def _message(policy: _Policy, validation: Object, values: Object) -> str:
    if expression := validation.get("messageExpression"):
        try:
            text = policy.run(expression, values)
        except _Failed:
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text.strip():
            return text.strip()
    return validation.get("message", "").strip() or f"failed expression: {validation['expression'].strip()}"


def _patched(policy: _Policy, mutation: Object, values: Object, invocation: Invocation[Matcher]) -> Object:
    obj = invocation.obj
    assert obj is not None
    if mutation["patchType"] == "ApplyConfiguration":
        config = policy.run(mutation["applyConfiguration"]["expression"], values)
        try:
            merged: Object = merge(obj, config, root_shape(invocation.resource.schema))
        except Untypable as error:
            raise _Failed(f"error applying patch: {error}") from error
        return merged
    operations = policy.run(mutation["jsonPatch"]["expression"], values)
    try:
        patched: Object = apply_operations(obj, operations, _patch_failed)
    except _TestFailed:
        return obj
    return patched


class _TestFailed(StatusError):
    """Error for a failed JSON Patch `test`, which leaves the object unchanged."""


def _patch_failed(operation: Object, _before: Object, _why: str) -> StatusError:
    error = internal_error(f"JSON Patch: {operation.get('op')} at {operation.get('path')} failed")
    return _TestFailed(error.code, error.reason, error.message) if operation.get("op") == "test" else error


def _denial(info: AdmissionInfo, message: str, reason: str, *, code: int = 0) -> StatusError:
    resource = info.resource
    about = forbidden(resource.group, resource.plural, info.name, message)
    text = message if code else about.message
    return StatusError(
        code or _CODES.get(reason, _DENIED),
        reason,
        text,
        details={**about.details, "causes": [{"message": message}]},
    )
