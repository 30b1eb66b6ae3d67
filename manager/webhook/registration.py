"""What all registrations have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["RegistrationError", "check_function"]


class RegistrationError(TypeError):
    """An operator's webhooks are not as they must be; one line that names the kind and what is wrong."""


def check_function(function: Callable[..., Any], *, what: str, taken: bool) -> None:
    """Raise `RegistrationError` unless it is an `async def`, and the first for `what`."""
    name = getattr(function, "__name__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise RegistrationError(f"{name}, which is to {what}, has to be an `async def`")
    if taken:
        raise RegistrationError(f"{name} is the second function to {what}; there can be one")
