"""Handlers of TokenReview, SubjectAccessReview and similar kinds, whose objects are never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devcluster.access.authentication import Authenticator
from devcluster.access.rbac import Attributes, RbacAuthorizer
from devcluster.access.tokens import AUDIENCE, ServiceAccountTokens
from devcluster.clock import Clock
from devcluster.errors import FieldError, bad_request, field_forbidden, field_invalid, invalid
from devcluster.http_call import User
from devcluster.quantity import quoted

Object = dict[str, Any]

_GROUP = "authorization.k8s.io"
_INVALID_TOKEN = "invalid bearer token"  # noqa: S105 -- the status for an invalid token


class AccessReviews:
    """Handler of TokenReview, SelfSubjectReview, SelfSubjectRulesReview and three kinds of access reviews."""

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: RbacAuthorizer,
        tokens: ServiceAccountTokens,
        clock: Clock,
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._tokens = tokens
        self._clock = clock
        self._answers: dict[str, Callable[[Object, User], Object]] = {
            "TokenReview": self._token,
            "SelfSubjectReview": self._self,
            "SubjectAccessReview": self._subject_access,
            "LocalSubjectAccessReview": self._local_access,
            "SelfSubjectAccessReview": self._self_access,
            "SelfSubjectRulesReview": self._rules,
        }

    async def review(self, kind: str, obj: Object, user: User) -> Object:
        """Return the review with its status filled in; raise StatusError if it is invalid.

        `user` is the user who sent the review.
        """
        return self._answers[kind](obj, user)

    def _token(self, obj: Object, _user: User) -> Object:
        spec = obj.get("spec") or {}
        token = spec.get("token", "")
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        wanted = spec.get("audiences") or [AUDIENCE]
        return {**obj, "status": self._about_token(token, wanted)}

    def _about_token(self, token: str, wanted: list[str]) -> Object:
        claims = self._tokens.claims_of(token)
        if claims is None:
            user = self._authenticator.user_of(token)
            if user is None:
                return {"user": {}, "error": _INVALID_TOKEN}
            # A token without audiences is valid for any server.
            audiences = wanted
        else:
            user = self._tokens.user_of(claims)
            audiences = [each for each in wanted if each in claims["aud"]]
            if not audiences:
                meant = " ".join(map(quoted, claims["aud"]))
                asked = " ".join(map(quoted, wanted))
                problem = f"token audiences [{meant}] is invalid for the target audiences [{asked}]"
                return {"user": {}, "error": f"[{_INVALID_TOKEN}, {problem}]"}
        return {"authenticated": True, "user": user.to_object(), "audiences": audiences}

    def _self(self, obj: Object, user: User) -> Object:
        metadata = {**obj.get("metadata", {}), "creationTimestamp": self._clock.timestamp()}
        return {**obj, "metadata": metadata, "status": {"userInfo": user.to_object()}}

    def _subject_access(self, obj: Object, _user: User) -> Object:
        spec = obj.get("spec") or {}
        errors = _check_attributes(spec)
        if not spec.get("user") and not spec.get("groups"):
            errors.append(field_invalid("spec.user", "", "at least one of user or group must be specified"))
        if errors:
            raise _invalid(errors)
        return self._decided(obj, _subject(spec))

    def _local_access(self, obj: Object, user: User) -> Object:
        namespace = (obj.get("metadata") or {}).get("namespace", "")
        spec = obj.get("spec") or {}
        wanted = spec.get("resourceAttributes") or {}
        field, given = "spec.resourceAttributes.namespace", wanted.get("namespace", "")
        if given != namespace:
            raise _invalid([field_invalid(field, given, "must match metadata.namespace")])
        if spec.get("nonResourceAttributes"):
            problem = "disallowed on this kind of request"
            raise _invalid([field_forbidden("spec.nonResourceAttributes", problem)])
        return self._subject_access(obj, user)

    def _self_access(self, obj: Object, user: User) -> Object:
        errors = _check_attributes(obj.get("spec") or {})
        if errors:
            raise _invalid(errors)
        return self._decided(obj, user)

    def _decided(self, obj: Object, user: User) -> Object:
        decision = self._authorizer.authorize(user, _wanted(obj["spec"]))
        status: Object = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return {**obj, "status": status}

    def _rules(self, obj: Object, user: User) -> Object:
        namespace = (obj.get("spec") or {}).get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules, problem = self._authorizer.rules_of(user, namespace)
        resources = []
        paths = []
        for rule in rules:
            if rule.resources:
                each = {"verbs": list(rule.verbs), "apiGroups": list(rule.groups)}
                each["resources"] = list(rule.resources)
                resources.append({**each, "resourceNames": list(rule.names)} if rule.names else each)
            if rule.paths:
                paths.append({"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)})
        status: Object = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": bool(problem)}
        if problem:
            status["evaluationError"] = problem
        # The response has only the status: the server does not repeat the spec.
        return {**obj, "spec": {}, "status": status}


def _subject(spec: Object) -> User:
    extra = {key.lower(): tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _wanted(spec: Object) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(verb=path.get("verb", ""), path=path.get("path", ""))
    given = spec["resourceAttributes"]
    names = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(**{name: given.get(name, "") for name in names})


def _check_attributes(spec: Object) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        shown = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
        problem = "cannot be specified in combination with resourceAttributes"
        return [field_invalid("spec.nonResourceAttributes", shown, problem)]
    if resource is None and path is None:
        problem = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [field_invalid("spec.resourceAttributes", None, problem)]
    return []


def _invalid(errors: list[FieldError]) -> Exception:
    # The real server omits the kind in this response too.
    return invalid(_GROUP, "", "", errors)
