"""Which operators run, and with what limits."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from manager.operator import AnyOperator
from manager.settings import SettingsError

__all__ = ["check_names", "enabled_operators"]

_ALL = "*"


def enabled_operators(
    operators: Sequence[AnyOperator], entries: Sequence[str], *, where: str
) -> tuple[AnyOperator, ...]:
    """The operators that `entries` select, in their own order; `where` tells who gave the entries.

    `foo` enables foo and `-foo` disables it, whichever comes first; `*` enables all that no entry
    names. Raises `SettingsError` for an unknown name, and when nothing is left to run.
    """
    check_names(operators, (entry.removeprefix("-") for entry in entries if entry != _ALL), where=where)
    chosen = tuple(operator for operator in operators if _is_enabled(operator.name, entries))
    if not chosen:
        hint = "; to run all but some, begin with '*', as in '*,-foo'" if _ALL not in entries else ""
        raise SettingsError(f"{where}: {','.join(entries)!r} leaves no controller to run{hint}")
    return chosen


def check_names(operators: Sequence[AnyOperator], names: Iterable[str], *, where: str) -> None:
    """Raise `SettingsError` for the first of `names` that is no operator's; `where` tells who gave them."""
    known = [operator.name for operator in operators]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise SettingsError(
                f"{where}: unknown controller {name!r}; {hint}the controllers are {', '.join(known)}"
            )


def _is_enabled(name: str, entries: Sequence[str]) -> bool:
    for entry in entries:
        if entry.removeprefix("-") == name:
            return entry == name
    return _ALL in entries
