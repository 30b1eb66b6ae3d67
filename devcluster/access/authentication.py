"""Authentication of requests by token or by client certificate; anonymous without either."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from devcluster.access.impersonation import impersonate
from devcluster.errors import unauthorized
from devcluster.http_call import ApiRequest, User

if TYPE_CHECKING:
    from devcluster.access.attributes import Attributes
    from devcluster.access.rbac import RbacAuthorizer
    from devcluster.access.tokens import ServiceAccountTokens

__all__ = ["ADMIN", "ANONYMOUS", "Authenticator"]

AUTHENTICATED = "system:authenticated"
CREDENTIAL = "authentication.kubernetes.io/credential-id"
ADMIN = User("kubernetes-admin", ("system:masters", AUTHENTICATED))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Authenticator:
    """An authenticator by tokens, and by client certificates that TLS has verified."""

    def __init__(
        self,
        authorizer: RbacAuthorizer,
        service_accounts: ServiceAccountTokens | None = None,
        action_of: Callable[[ApiRequest], Attributes] | None = None,
    ) -> None:
        """Set up the authenticator; `action_of` returns a request's purpose for the text of a refusal."""
        self._authorizer = authorizer
        self._service_accounts = service_accounts
        self._action_of = action_of
        self._users: dict[str, User] = {}

    def add(self, token: str, user: User) -> None:
        """Accept the token for the user."""
        if AUTHENTICATED not in user.groups:
            user = User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)
        self._users[token] = user

    def remove(self, token: str) -> None:
        """Stop accepting the token."""
        self._users.pop(token, None)

    def authenticate(self, request: ApiRequest) -> User:
        """Return the user that the request acts for, after any impersonation headers.

        Raises:
            StatusError: 401 for an unknown token, 403 where impersonation is not allowed.
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
