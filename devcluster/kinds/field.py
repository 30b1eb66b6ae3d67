"""Fields under validation, with their values, paths and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from devcluster import errors
from devcluster.errors import FieldError
from devcluster.urls import split_url

NEGATIVE = "must be greater than or equal to 0"
_OWN = object()


class Field:
    """Value with its path: `field["name"]` is a field inside it, and iteration yields the items of a list.

    All fields of an object share one list of errors. A field is true unless its value is absent, empty, 0 or
    False. Error messages that quote the field's value quote `shown` instead, if it is given.
    """

    __slots__ = ("_above", "_step", "errors", "value")

    def __init__(self, value: Any, step: str | int = "", above: Field | None = None) -> None:
        """Set up the field at `step` inside `above`; the step is a name, an index, or a key in brackets."""
        self.value = value
        self._step = step
        self._above = above
        self.errors: list[FieldError] = [] if above is None else above.errors

    @property
    def path(self) -> str:
        """Path of the field, such as `spec.ports[0].name`."""
        step, above = self._step, "" if self._above is None else self._above.path
        if isinstance(step, int):
            return f"{above}[{step}]"
        return f"{above}.{step}" if above and step and step[0] != "[" else above + step

    def __getitem__(self, name: str) -> Field:
        value = self.value
        return Field(value.get(name) if value else None, name, self)

    def at(self, path: str, absent: Any = None) -> Field:
        """Return the field at a dotted path inside this one; a missing field has the value `absent`."""
        value = self.value
        for name in path.split("."):
            value = (value or {}).get(name)
        return Field(absent if value is None else value, path, self)

    def key(self, name: str, value: Any) -> Field:
        """Return the field for an entry of a map, with a path such as `limits[cpu]`."""
        return Field(value, f"[{name}]", self)

    def get(self, name: str, absent: Any = None) -> Any:
        """Return the value of the field `name` inside this one, or `absent` if it is missing."""
        return (self.value or {}).get(name, absent)

    def given(self, *names: str) -> list[str]:
        """Return those of `names` that exist as fields inside this one."""
        return [name for name in names if self.get(name) is not None]

    def __iter__(self) -> Iterator[Field]:
        value = self.value
        return iter([Field(each, index, self) for index, each in enumerate(value)] if value else ())

    def __bool__(self) -> bool:
        return bool(self.value)

    @property
    def is_set(self) -> bool:
        """Whether the field exists; its value may be empty."""
        return self.value is not None

    def required(self, detail: str = "") -> None:
        self.errors.append(errors.field_required(self.path, detail))

    def not_found(self) -> None:
        self.errors.append(errors.field_not_found(self.path, self.value))

    def forbidden(self, detail: str) -> None:
        self.errors.append(errors.field_forbidden(self.path, detail))

    def invalid(self, detail: str, shown: Any = _OWN) -> None:
        self.errors.append(errors.field_invalid(self.path, self.value if shown is _OWN else shown, detail))

    def unsupported(self, supported: Sequence[str], shown: Any = _OWN) -> None:
        self.errors.append(
            errors.field_unsupported(self.path, self.value if shown is _OWN else shown, supported)
        )

    def duplicate(self, shown: Any = _OWN) -> None:
        self.errors.append(errors.field_duplicate(self.path, self.value if shown is _OWN else shown))

    def too_long(self, maximum: int) -> None:
        self.errors.append(errors.field_too_long(self.path, maximum))

    def too_many(self, actual: int, maximum: int) -> None:
        self.errors.append(errors.field_too_many(self.path, actual, maximum))

    def check(self, rule: Callable[[Any], list[str]], value: Any = _OWN) -> bool:
        """Report each error that a naming rule finds; return whether the value is valid."""
        value = self.value if value is _OWN else value
        wrong = rule(value)
        for text in wrong:
            self.invalid(text, value)
        return not wrong

    def check_required(self, rule: Callable[[Any], list[str]], detail: str = "") -> None:
        """Check a value by a naming rule; report a missing value too."""
        if self:
            self.check(rule)
        else:
            self.required(detail)

    def check_given(self, rule: Callable[[Any], list[str]]) -> None:
        """Check a value by a naming rule, unless it is missing."""
        if self:
            self.check(rule)

    def check_unique(self, seen: set[Any]) -> None:
        """Report a duplicate if the value is already in `seen`; add it to `seen`."""
        if self.value in seen:
            self.duplicate()
        seen.add(self.value)

    def check_unchanged(self, old: Any) -> None:
        """Report an error if the value differs from the old one."""
        if self.value != old:
            self.invalid("field is immutable")

    def one_of(self, supported: Sequence[str]) -> None:
        """Check that the value is one of `supported`; report a missing value too."""
        if not self:
            self.required()
        elif self.value not in supported:
            self.unsupported(supported)

    def any_of(self, supported: Sequence[str]) -> None:
        """Check that the value, unless it is missing, is one of `supported`."""
        if self.value is not None and self.value not in supported:
            self.unsupported(supported)

    def not_negative(self, *names: str) -> None:
        """Check that the numbers in the fields `names` are not negative; missing ones are valid."""
        for name in names:
            value = self.get(name)
            if isinstance(value, int) and value < 0:
                self[name].invalid(NEGATIVE)

    def check_https(self) -> None:
        """Check the URL of a webhook, which must use https."""
        form = "; desired format: https://host[/path]"
        try:
            parts = split_url(self.value)
        except ValueError as error:
            self.required(f"url must be a valid URL: {error}{form}")
            return
        if parts.scheme != "https":
            self.invalid(f"'https' is the only allowed URL scheme{form}", parts.scheme)
        if not parts.netloc:
            self.invalid(f"host must be specified{form}", parts.netloc)
        for part, refused in (
            (parts.username, "user information is"),
            (parts.fragment or None, "fragments are"),
            (parts.query or None, "query parameters are"),
        ):
            if part is not None:
                self.invalid(f"{refused} not permitted in the URL", part)
