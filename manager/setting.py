"""Settings that operators declare for themselves: each is a key with a name, a type and a default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, Self, TypeVar, cast, overload

__all__ = ["Setting", "SettingValues", "UndeclaredSetting"]

T = TypeVar("T")
U = TypeVar("U")

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def _text(text: str) -> str:
    """Any text but none. Raises `ValueError` for "", which is most likely a variable that was not set."""
    if not text:
        raise ValueError("some text is expected")
    return text


class HasSettings(Protocol):
    """Whose attributes may be settings."""

    @property
    def settings(self) -> SettingValues:
        """Their values."""


class Setting(Generic[T]):
    """The key of one setting, and all there is to know about it; T is the type of its value.

    Like a key of an aiohttp application, it is compared by identity, and tells type checkers what
    `manager.settings[KEY]` is. Declaring one imports nothing: `--help` needs all keys of all operators.
    """

    __slots__ = ("default", "description", "name", "parse", "placeholder")

    @overload
    def __init__(
        self: Setting[str], name: str, *, default: str, description: str, placeholder: str = ...
    ) -> None: ...

    @overload
    def __init__(
        self: Setting[str | None],
        name: str,
        *,
        default: None = None,
        description: str,
        placeholder: str = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: Setting[U],
        name: str,
        parse: Callable[[str], U],
        *,
        default: str,
        description: str,
        placeholder: str = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: Setting[U | None],
        name: str,
        parse: Callable[[str], U],
        *,
        default: None = None,
        description: str,
        placeholder: str = ...,
    ) -> None: ...

    def __init__(
        self,
        name: str,
        parse: Callable[[str], Any] = _text,
        *,
        default: str | None = None,
        description: str,
        placeholder: str = "VALUE",
    ) -> None:
        """Args:
        name: as in the flag: `petstore-address`. One name for all operators of a process, so begin it with
            what it is about.
        parse: makes the value from what was written; raises ValueError that says what is expected. Default
            the text itself, unless it is empty. There are `parse_duration` and `parse_address` in the
            modules of these names.
        default: written as a person would write it; None is to have no value when none is given.
        description: what `--help` says, without the default.
        placeholder: stands for the value in `--help`: `HOST:PORT`.

        Raises `ValueError` for a name that is none, and for a default that `parse` refuses.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f'{name!r} cannot name a setting: lower-case words joined by "-" are expected')
        self.name = name
        self.parse: Callable[[str], T] = parse
        self.default = default
        self.description = description
        self.placeholder = placeholder
        try:
            self.default_value()
        except ValueError as error:
            raise ValueError(f"the default {default!r} of the setting {name!r}: {error}") from error

    @property
    def variable(self) -> str:
        """The environment variable that sets it: `PETSTORE_ADDRESS`."""
        return self.name.replace("-", "_").upper()

    def default_value(self) -> T:
        """What it is when nobody gives it."""
        # Without a default, the overloads have made None part of T.
        return cast("T", None) if self.default is None else self.parse(self.default)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: HasSettings, owner: type) -> T: ...

    def __get__(self, instance: HasSettings | None, owner: type) -> Self | T:
        """As an attribute of an operator's class it is itself; of an operator, its value."""
        return self if instance is None else instance.settings[self]

    def __repr__(self) -> str:
        return f"Setting({self.name!r})"


class UndeclaredSetting(LookupError):
    """A setting is asked for that the operator has not declared: nobody could give it."""

    def __init__(self, key: Setting[Any]) -> None:
        super().__init__(
            f"the setting {key.name!r} is not declared: its operator has to list it, "
            "as in `image = KEY` in its class"
        )


class SettingValues:
    """The values of the settings that the operators which run have declared, by key."""

    def __init__(self, values: Mapping[Setting[Any], Any] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: Setting[T]) -> T:
        """The value. Raises `UndeclaredSetting`."""
        if key not in self._values:
            raise UndeclaredSetting(key)
        return cast("T", self._values[key])
