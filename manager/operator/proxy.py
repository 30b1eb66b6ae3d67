"""The manager's proxy settings, as environment for the containers it runs."""

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
    """Declaration in an operator's class that its containers get the manager's proxy settings.

    As an attribute of the operator it is their `env` entries (see `proxy_environment`), and empty without a
    proxy. With it comes the setting that says whether they have the proxy's password.
    """

    @overload  # type: ignore[override]
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> list[EnvVarDict]: ...

    def __get__(self, instance: Any, owner: type) -> Self | list[EnvVarDict]:
        if instance is None:
            return self
        environment = proxy_environment(os.environ, credentials=instance.settings[self])
        # From now on it is an attribute of the instance: what the log says of it, it says once.
        for name in {name for each in owner.__mro__ for name, value in vars(each).items() if value is self}:
            vars(instance)[name] = environment
        return environment


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

    Programs disagree about the spelling, so each variable is given in both; where the manager has only one
    of the two, that one counts, and the upper case wins where they differ. Without `credentials`, a URL loses
    its user and password, and one in which they cannot be told from the rest is left out; the log says so.
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
    """Return the URL without user and password; empty if they cannot be told from the rest."""
    # The last "@" ends them: one that belongs into a password ought to be written %40, and may not be.
    match = _URL.fullmatch(url)
    bare = (match["scheme"] or "") + match["place"] if match else ""
    if bare != url:
        what = "containers get the proxy's URL without user and password"
        if not bare:
            what = "containers do not get this, which is no URL of a proxy: a password may be anywhere in it"
        get_logger("proxy").warning(what, variable=variable, setting="--proxy-credentials=keep")
    return bare
