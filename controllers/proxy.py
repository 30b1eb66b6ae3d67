"""The manager's proxy settings, as environment for the containers it runs."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["proxy_environment"]

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def proxy_environment(environ: Mapping[str, str]) -> list[dict[str, str]]:
    """Return container `env` entries for the proxy variables that are set, in upper and in lower case.

    Programs disagree about the spelling, so each variable is given in both; where the manager has only one
    of the two, that one counts, and the upper case wins where they differ.
    """
    found = {name: environ.get(name) or environ.get(name.lower()) for name in VARIABLES}
    return [
        {"name": spelling, "value": value}
        for name, value in found.items()
        if value
        for spelling in (name, name.lower())
    ]
