"""The manager's proxy settings as environment variables for containers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, overload

from manager.settings import Setting
from manager.telemetry.logs import get_logger

if TYPE_CHECKING:
    from manager_kinds.core_v1 import EnvVarDict


def _parse_credentials(text: str) -> bool:
    choices = {"drop": False, "keep": True}
    if text not in choices:
        raise ValueError("drop or keep is expected")
    return choices[text]


class ProxyEnvironment(Setting[bool]):
    """A declaration that passes the manager's proxy settings to the operator's containers.

    The attribute of the operator is a list of `env` entries (see `proxy_environment`); it may be empty.
    The declaration adds the setting that decides whether the containers get the proxy's password.
    """

    @overload  # type: ignore[override]
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> list[EnvVarDict]: ...

    def __get__(self, instance: Any, owner: type) -> Self | list[EnvVarDict]:
        value: Self | list[EnvVarDict] = super().__get__(instance, owner)
        return value

    def _value_for(self, instance: Any) -> Any:
        return proxy_environment(os.environ, credentials=instance.settings[self])


PROXY_ENVIRONMENT = ProxyEnvironment(
    "proxy-credentials",
    _parse_credentials,
    default="drop",
    placeholder="drop|keep",
    description="whether containers of operators get the user and password in the manager's proxy URL:"
    " all users with the right to read Deployments of the namespace see them",
)

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)?(?:.*@)?(?P<place>([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]+)?/?)",
    re.IGNORECASE | re.DOTALL,
)


def proxy_environment(environ: Mapping[str, str], *, credentials: bool) -> list[EnvVarDict]:
    """Return container `env` entries for the proxy variables that are set, in upper and in lower case.

    Programs disagree about the spelling, so each variable is set in upper and lower case. If the manager's
    values differ, upper case wins. Without `credentials`, a URL loses its user and password. A URL in which
    these cannot be recognised is omitted, with a warning in the log.
    """
    found: list[EnvVarDict] = []
    for name in VARIABLES:
        value = environ.get(name) or environ.get(name.lower())
        if value and not credentials and name != "NO_PROXY":
            value = _bare(name, value.strip())
        if value:
            found += ({"name": spelling, "value": value} for spelling in (name, name.lower()))
    return found


def _bare(variable: str, url: str) -> str:
    """Return the URL without user and password; empty if these cannot be recognised."""
    # The last "@" ends the credentials: a password should contain %40 instead, but may contain "@".
    match = _URL.fullmatch(url)
    bare = (match["scheme"] or "") + match["place"] if match else ""
    if bare != url:
        log = get_logger("proxy", variable=variable, url=bare, setting="--proxy-credentials=keep")
        if bare:
            log.warning("containers get the proxy URL without its credentials")
        else:  # any part of the URL may be a password, so the log has none
            log.warning("containers get no proxy URL, because credentials in it cannot be recognised")
    return bare
