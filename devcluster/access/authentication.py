"""Authentication, and impersonation of other users."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote

from devcluster.access.rbac import Attributes, RbacAuthorizer, refusal
from devcluster.access.tokens import ServiceAccountTokens
from devcluster.errors import bad_request, unauthorized
from devcluster.http_call import ApiRequest, User

_EXTRA = "impersonate-extra-"
_ACCOUNT = "system:serviceaccount:"
AUTHENTICATED = "system:authenticated"
_UNAUTHENTICATED = "system:unauthenticated"


def impersonate(
    requester: User, headers: Mapping[str, str], authorizer: RbacAuthorizer, action: Attributes | None = None
) -> User:
    """Return the user that the Impersonate headers describe.

    Line breaks separate the values of a repeated header. `action` is the action that the request wants to
    take; the message of the 403 shows it if the user fits a mode of constrained impersonation.

    Raises:
        StatusError: 403 without the right to impersonate that user or group; 400 for invalid headers.
    """
    name = headers.get("impersonate-user", "").split("\n")[0]
    uid = headers.get("impersonate-uid", "").split("\n")[0]
    groups = tuple(headers["impersonate-group"].split("\n")) if "impersonate-group" in headers else ()
    extra = {
        unquote(header.removeprefix(_EXTRA)): tuple(values.split("\n"))
        for header, values in headers.items()
        if header.startswith(_EXTRA)
    }
    if not name:
        if not (uid or groups or extra):
            return requester
        raise _without_user(uid, groups, extra)
    wanted = User(name, groups, uid, extra)
    for attributes in _needed(wanted):
        decision = authorizer.authorize(requester, attributes)
        if not decision.allowed:
            told = attributes
            if action is not None and (mode := _constrained_mode(wanted)):
                told = dataclasses.replace(action, verb=f"impersonate-on:{mode}:{action.verb}")
            raise refusal(requester, told, decision)
    return User(name, _effective_groups(name, groups), uid, extra)


def _needed(wanted: User) -> Iterator[Attributes]:
    """Yield each permission to impersonate that the requester needs, in the order of the server's checks."""
    impersonate = functools.partial(Attributes, verb="impersonate", version="v1")
    identity = functools.partial(impersonate, group="authentication.k8s.io")
    namespace, _, account = wanted.name.removeprefix(_ACCOUNT).partition(":")
    if wanted.name.startswith(_ACCOUNT) and namespace and account:
        yield impersonate(resource="serviceaccounts", namespace=namespace, name=account)
    else:
        yield impersonate(resource="users", name=wanted.name)
    if wanted.uid:
        yield identity(resource="uids", name=wanted.uid)
    for group in wanted.groups:
        yield impersonate(resource="groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield identity(resource="userextras", subresource=key, name=value)


def _constrained_mode(wanted: User) -> str:
    """Return the mode of constrained impersonation (KEP-5284) that fits the user, or "" if no mode fits.

    The real server tries this mode before plain impersonation, so the server's error names the mode.
    devcluster never grants such a mode.
    """
    by_name_only = not (wanted.groups or wanted.uid or wanted.extra)
    if wanted.name.startswith("system:node:"):
        return "arbitrary-node" if by_name_only else ""
    if wanted.name.startswith(_ACCOUNT):
        return "serviceaccount" if by_name_only else ""
    return "user-info"


def _effective_groups(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if not groups and name.startswith(_ACCOUNT):
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    if name == "system:anonymous":
        return groups if _UNAUTHENTICATED in groups else (*groups, _UNAUTHENTICATED)
    if AUTHENTICATED in groups or _UNAUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)


def _without_user(uid: str, groups: tuple[str, ...], extra: Mapping[str, tuple[str, ...]]) -> Exception:
    def strings(values: tuple[str, ...]) -> str:
        return "[]string{" + ", ".join(f'"{value}"' for value in values) + "}" if values else "[]string(nil)"

    pairs = ", ".join(f'"{key}":{strings(values)}' for key, values in sorted(extra.items()))
    shown = f"map[string][]string{{{pairs}}}" if extra else "map[string][]string(nil)"
    return bad_request(
        f'requested &user.DefaultInfo{{Name:"", UID:"{uid}", Groups:{strings(groups)}, Extra:{shown}}} '
        "without impersonating a user name"
    )


CREDENTIAL = "authentication.kubernetes.io/credential-id"
ADMIN = User("kubernetes-admin", ("system:masters", AUTHENTICATED))
ANONYMOUS = User("system:anonymous", (_UNAUTHENTICATED,))


class Authenticator:
    """Authenticator of requests by bearer token, or by a client certificate that TLS has verified."""

    def __init__(
        self,
        authorizer: RbacAuthorizer,
        service_accounts: ServiceAccountTokens | None = None,
        action_of: Callable[[ApiRequest], Attributes] | None = None,
    ) -> None:
        """Set up the authenticator; `action_of` returns the action of a request, for error messages."""
        self._authorizer = authorizer
        self._service_accounts = service_accounts
        self._action_of = action_of
        self._users: dict[str, User] = {}

    def add(self, token: str, user: User) -> None:
        if AUTHENTICATED not in user.groups:
            user = User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)
        self._users[token] = user

    def remove(self, token: str) -> None:
        self._users.pop(token, None)

    def authenticate(self, request: ApiRequest) -> User:
        """Return the user that the request acts for, after impersonation.

        Raises:
            StatusError: 401 for an unknown token, or an error of `impersonate`.
        """
        user = self._requester(request)
        for name in request.headers:
            if name.startswith("impersonate-"):
                action = self._action_of(request) if self._action_of else None
                return impersonate(user, request.headers, self._authorizer, action)
        return user

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, or None for an unknown one."""
        user = self._users.get(token)
        if user is None and self._service_accounts is not None:
            user = self._service_accounts.verify(token)
        return user

    def _requester(self, request: ApiRequest) -> User:
        certificate = request.client_certificate
        if certificate and certificate["CN"]:
            fingerprints = [f"X509SHA256={each}" for each in certificate.get("X509SHA256", ())]
            extra = {CREDENTIAL: tuple(fingerprints)} if fingerprints else {}
            return User(certificate["CN"][0], (*certificate["O"], AUTHENTICATED), extra=extra)
        scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        user = self.user_of(token)
        if user is None:
            raise unauthorized()
        return user
