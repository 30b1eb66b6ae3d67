"""Impersonation of another user, for requesters whose roles allow it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from devcluster.access.attributes import Attributes, refusal
from devcluster.errors import bad_request
from devcluster.http_call import User

if TYPE_CHECKING:
    from devcluster.access.rbac import RbacAuthorizer

__all__ = ["impersonate"]

_EXTRA = "impersonate-extra-"
_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATED = "system:authenticated"
_UNAUTHENTICATED = "system:unauthenticated"


def impersonate(
    requester: User, headers: Mapping[str, str], authorizer: RbacAuthorizer, action: Attributes | None = None
) -> User:
    """Return the user that the Impersonate headers describe.

    Line breaks separate the values of one header. `action` is the request's purpose; a refusal names it.

    Raises:
        StatusError: 403 when the requester may not act as that user or group; 400 when the headers name
            no user.
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
    """Yield the permissions that the requester needs, in the order in which the server checks them."""
    namespace, _, account = wanted.name.removeprefix(_ACCOUNT).partition(":")
    if wanted.name.startswith(_ACCOUNT) and namespace and account:
        yield Attributes(
            verb="impersonate", version="v1", resource="serviceaccounts", namespace=namespace, name=account
        )
    else:
        yield Attributes(verb="impersonate", version="v1", resource="users", name=wanted.name)
    identity = "authentication.k8s.io"
    if wanted.uid:
        yield Attributes(verb="impersonate", group=identity, version="v1", resource="uids", name=wanted.uid)
    for group in wanted.groups:
        yield Attributes(verb="impersonate", version="v1", resource="groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attributes(
                verb="impersonate",
                group=identity,
                version="v1",
                resource="userextras",
                subresource=key,
                name=value,
            )


def _constrained_mode(wanted: User) -> str:
    """Return the constrained mode that the real server tries before plain impersonation, or "" if none fits.

    A refusal names this mode. Roles for such modes have no effect here.
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
    if _AUTHENTICATED in groups or _UNAUTHENTICATED in groups:
        return groups
    return (*groups, _AUTHENTICATED)


def _without_user(uid: str, groups: tuple[str, ...], extra: Mapping[str, tuple[str, ...]]) -> Exception:
    def strings(values: tuple[str, ...]) -> str:
        return "[]string{" + ", ".join(f'"{value}"' for value in values) + "}" if values else "[]string(nil)"

    pairs = ", ".join(f'"{key}":{strings(values)}' for key, values in sorted(extra.items()))
    shown = f"map[string][]string{{{pairs}}}" if extra else "map[string][]string(nil)"
    return bad_request(
        f'requested &user.DefaultInfo{{Name:"", UID:"{uid}", Groups:{strings(groups)}, Extra:{shown}}} '
        "without impersonating a user name"
    )
