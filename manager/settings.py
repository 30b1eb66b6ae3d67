"""Settings: their names, the sources of their values, and the errors for invalid values."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Generic, NamedTuple, Self, TypedDict, TypeVar, Unpack, cast, overload

from manager.util.address import in_pod, parse_address, parse_bind_address
from manager.util.duration import format_duration, parse_duration, parse_wait
from manager.util.program import Program
from manager.util.small_file import read_small_file

T = TypeVar("T")
U = TypeVar("U")

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_TRUTHS = {
    **dict.fromkeys(("true", "yes", "on", "t", "y", "1"), True),
    **dict.fromkeys(("false", "no", "off", "f", "n", "0"), False),
}


class SettingsError(Exception):
    """An invalid flag, environment variable, file or key; the message names it and the expected value."""


def parse_text(text: str) -> str:
    """Return the text; raise `ValueError` if it is empty, most likely because a variable was not set."""
    if not text:
        raise ValueError("a text that is not empty is expected")
    return text


def parse_bool(text: str) -> bool:
    """Parse true, yes, on, t, y, 1 or an opposite; flags that use it need no value. Raises `ValueError`."""
    if text.lower() not in _TRUTHS:
        raise ValueError("true or false is expected")
    return _TRUTHS[text.lower()]


# bool("false") is True.
_PARSERS: dict[object, Callable[[str], Any]] = {bool: parse_bool}
_PLACEHOLDERS: dict[object, str] = {
    parse_bool: "BOOL",
    parse_address: "HOST:PORT",
    parse_bind_address: "ADDRESS",
    parse_duration: "DURATION",
    parse_wait: "DURATION",
}
_EXPECTED: dict[object, str] = {int: "a whole number is expected", float: "a number is expected"}
"""Texts that are clearer than the errors of Python's own types."""


class _About(TypedDict, total=False):
    description: str
    placeholder: str
    unset: str
    many: bool
    in_pod: str
    own: bool
    also: tuple[str, ...]


class Setting(Generic[T]):
    """A setting with its properties, which is also the key of its value; T is the type of the value.

    The attribute of a class, such as an operator, is the setting; the attribute of an instance is the value.
    Settings are compared by identity, and type checkers derive the type of `manager.settings[SETTING]`.
    """

    @overload
    def __init__(self: Setting[str], name: str, *, default: str, **about: Unpack[_About]) -> None: ...

    @overload
    def __init__(
        self: Setting[str | None], name: str, *, default: None = None, **about: Unpack[_About]
    ) -> None: ...

    @overload
    def __init__(
        self: Setting[U], name: str, parse: Callable[[str], U], *, default: str | U, **about: Unpack[_About]
    ) -> None: ...

    @overload
    def __init__(
        self: Setting[U | None],
        name: str,
        parse: Callable[[str], U],
        *,
        default: None = None,
        **about: Unpack[_About],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        parse: Callable[[str], Any] = parse_text,
        *,
        default: Any = None,
        **about: Unpack[_About],
    ) -> None:
        """Declare a setting.

        Args:
            name: the name in the flag: `petstore-address`. It must be unique in a process with several
                operators, so begin with the subject.
            parse: converts the text of a value; raises ValueError with the expected form. By default, any
                text that is not empty is accepted. `parse_duration` is in `manager.util.duration`, and
                `parse_address` in `manager.util.address`; `bool` stands for this module's `parse_bool`.
            default: a text, as a user would write it, or a value whose text `parse` accepts; None if the
                setting may have no value.
            about: `description` is the text in `--help`, without the default. `placeholder` is the name of
                the value in `--help`, by default the parser's. `unset` describes a default that is None
                or empty, such as `8 each`. `many` accepts lists: the flag may be given several times, the
                file may contain a list or a mapping, and `parse` gets the values joined by commas. `in_pod`
                is the default in a pod, if it differs. `own` marks a setting of the manager itself:
                `describe` sets its texts, and `also` has its further variables.

        Raises `TypeError` without a description, `ValueError` for an invalid name or an invalid default.
        """
        self.own = about.get("own", False)
        if not self.own and "description" not in about:
            raise TypeError(f'the setting {name!r} needs a description, as in description="the image"')
        if not _NAME.fullmatch(name):
            raise ValueError(f'{name!r} cannot name a setting: lower-case words joined by "-" are expected')
        parse = _PARSERS.get(parse, parse)
        self.name = name
        self.parse: Callable[[str], T] = parse
        self.default = _shown(default, parse)
        self.describe("", about.get("placeholder", ""), about.get("description", ""))
        self.unset = about.get("unset", "none")
        self.many = about.get("many", False)
        self.in_pod = about.get("in_pod")
        self._also = about.get("also", ())
        for option, value, text in (("default", default, self.default), ("in_pod", self.in_pod, self.in_pod)):
            try:
                if text is not None:
                    parse(text)
            except ValueError as error:
                told = _EXPECTED.get(parse, error)
                raise ValueError(f"the {option} {value!r} of the setting {name!r}: {told}") from error

    def describe(self, group: str, placeholder: str, description: str) -> None:
        """Set the texts in `--help`, and the heading `group` above them; see `__init__`."""
        self.group, self.description = group, description
        self.placeholder = placeholder or _PLACEHOLDERS.get(self.parse, "VALUE")

    @property
    def flag(self) -> str:
        """Return the setting's flag: `--petstore-address`. The key in a file has no leading dashes."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        """Return the setting's environment variable: `PETSTORE_ADDRESS`."""
        return self.name.replace("-", "_").upper()

    def variables(self, program: Program) -> tuple[str, ...]:
        """Return the environment variables by precedence; if `own`, the first has the program's prefix."""
        return ((program.variables if self.own else "") + self.variable, *self._also)

    def default_value(self) -> T:
        """Return the value that the setting has if no source sets it."""
        text = self.in_pod if self.in_pod is not None and in_pod(os.environ) else self.default
        # Without a default, the overloads have added None to T.
        return cast("T", None) if text is None else self.parse(text)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: Any, owner: type) -> Self | T:
        if instance is None:
            return self
        value = self._value_for(instance)
        # An attribute of the instance comes before this descriptor, so the value is looked up once.
        for name in {name for each in owner.__mro__ for name, there in vars(each).items() if there is self}:
            if getattr(owner, name) is self:  # else a subclass overrides it, and `super()` has asked for it
                vars(instance)[name] = value
        return value

    def _value_for(self, instance: Any) -> T:
        """Return the value of the instance's attribute; a subclass may derive it from the setting's value."""
        return cast("T", instance.settings[self])

    def __repr__(self) -> str:
        return f"Setting({self.name!r})"


def _shown(default: Any, parse: Callable[[str], Any]) -> str | None:
    if default is None or isinstance(default, str):
        return default
    if isinstance(default, bool):
        return str(default).lower()
    return format_duration(default) if parse in {parse_duration, parse_wait} else str(default)


class SettingValues:
    """The values of settings, by key."""

    def __init__(self, values: Mapping[Setting[Any], Any] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: Setting[T]) -> T:
        if key not in self._values:
            raise LookupError(
                f"the setting {key.name!r} is not declared: its operator has to list it, "
                "as in `image = KEY` in its class"
            )
        return cast("T", self._values[key])


class RawValue(NamedTuple):
    """A value as it was written: a description of its source, and a text or YAML value."""

    where: str
    value: Any


class Sources:
    """The flags, the environment, and the file named by one of these, in order of precedence."""

    def __init__(self, flags: Mapping[str, str], program: Program, *, file: Setting[str | None]) -> None:
        """Create the sources; the setting `file` names the settings file, `flags` maps names to texts."""
        self._flags = flags
        self._program = program
        self._file = file
        named = self._outside(file)
        self._path: str = named.value if named else ""

    def find(self, setting: Setting[Any]) -> RawValue | None:
        """Return a setting's value from its first source, or None. Raises `SettingsError` for a bad file."""
        given = self._outside(setting)
        # A key without a value counts as not set.
        if given is None and (value := self._in_file.get(setting.name)) is not None:
            return RawValue(f"{setting.name!r} in {self._path}", value)
        return given

    def load(self, settings: Iterable[Setting[Any]]) -> SettingValues:
        """Return the values of the settings, including defaults.

        Raises `SettingsError` with one line: the source, the value, and the expected form.
        """
        return SettingValues({setting: self._value(setting) for setting in settings})

    def where(self, setting: Setting[Any]) -> str:
        """Return a description of the source of a setting's value."""
        given = self.find(setting)
        return given.where if given else f"the default of {setting.flag}"

    def check_keys(self, known: Iterable[Setting[Any]]) -> None:
        """Raise `SettingsError` for the first key in the file that names `file` or no `known` setting."""
        names = {setting.name for setting in known} - {self._file.name}
        for key in self._in_file:
            if key not in names:
                close = difflib.get_close_matches(str(key).replace("_", "-"), names, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise SettingsError(f"{self._path}: unknown key {key!r}{hint}")

    def _outside(self, setting: Setting[Any]) -> RawValue | None:
        if setting.name in self._flags:
            return RawValue(setting.flag, self._flags[setting.name])
        for name in setting.variables(self._program):
            if value := os.environ.get(name):
                return RawValue(f"the environment variable {name}", value)
        return None

    def _value(self, setting: Setting[Any]) -> Any:
        given = self.find(setting)
        if given is None:
            return setting.default_value()
        text = _text(given.value, many=setting.many)
        try:
            if text is None:
                what = "a text, a list of texts or a mapping" if setting.many else "a single value"
                raise ValueError(f"{what} is expected")  # noqa: TRY301 - like a parser's refusal
            return setting.parse(text)
        except ValueError as error:
            reason = _EXPECTED.get(setting.parse, str(error))
        except Exception as error:  # noqa: BLE001 - authors write parsers
            reason = f"{type(error).__name__}: {error} (its parser should raise ValueError)"
        shown = str(given.value) if text is None else text
        raise SettingsError(f"invalid value {shown!r} for {given.where}: {' '.join(reason.split())}")

    @cached_property
    def _in_file(self) -> dict[Any, Any]:
        return _read_file(self._path) if self._path else {}


def _text(value: Any, *, many: bool) -> str | None:
    """Return a YAML value in the form of a flag's text; None if the value has no such form."""
    if isinstance(value, str):
        return value
    if many:
        # YAML reads `no` as false, which may be the name of a namespace.
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return ",".join(value)
        return ",".join(f"{name}={of}" for name, of in value.items()) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else None


def _read_file(path: str) -> dict[Any, Any]:
    """Read the settings in the file at `path`, by key.

    Raises `SettingsError` with the name of the file, and the line if known.
    """
    from manager.util import yaml_text  # noqa: PLC0415 - 10 ms, 0.6 MB

    try:
        content = yaml_text.load(read_small_file(path), unique_keys=True)
    except OSError as error:
        raise SettingsError(f"{path}: cannot read the settings file: {error.strerror}") from error
    except yaml_text.NotYaml as error:
        raise SettingsError(f"{path}: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: a mapping of settings is expected, such as 'log-level: debug'")
    return content
