"""The operators of a program, the selection of those that run, and their declarations."""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
from pydantic import PydanticUserError

from manager.api import GroupVersionKind
from manager.api.crd import conflict_of_kinds
from manager.cli.settings import OWN, SERVICE_LINK
from manager.operator import AnyOperator, Operator, Owns
from manager.operator.reconciler import check_work
from manager.settings import Setting, SettingsError
from manager.util.program import Program, loaded_entries
from manager.webhook.methods import webhooks_of

_ALL = "*"
_MANAGER = "the manager itself"
_LIBRARIES = {"manager", "pydantic", "abc", "dataclasses", "importlib"}


def all_operators(
    own: Sequence[AnyOperator], program: Program, *, installed: bool
) -> tuple[AnyOperator, ...]:
    """Return the program's `own` operators, and with `installed` those that other packages add.

    Raises `ClickException` for an operator that cannot run, alone or together with the others.
    """
    others = installed_operators(own, program) if installed else {}
    named: dict[str, str] = {}
    for operator in (*own, *others):
        # A caller without type checks may pass anything.
        if not (isinstance(operator, type) and issubclass(operator, Operator)):  # type: ignore[redundant-expr]
            raise click.ClickException(f"{operator!r} is no operator, as in class Name(Operator[Kind])")
        if not hasattr(operator, "kind"):
            raise click.ClickException(f"{operator.__name__} has no kind, as in class Name(Operator[Kind])")
        this = operator.__name__ + (f" of {others[operator]}" if operator in others else "")
        if operator.name in named:
            raise click.ClickException(
                f"{named[operator.name]} and {this} are both called {operator.name}: "
                "give one of them another `name`"
            )
        named[operator.name] = this
    found = (*own, *others)
    conflict = conflict_of_kinds(kind for operator in found for kind in operator.kinds())
    if conflict is not None:
        raise click.ClickException(": ".join(conflict))
    try:  # the same check for all commands, even if webhooks are not served
        for operator in found:
            check_work(operator)
        declared_settings(found, program)
        webhooks_of(found)
    except (SettingsError, TypeError) as error:
        raise click.ClickException(str(error)) from error
    return found


def own_operators(
    operators: Sequence[AnyOperator] | Callable[[], Sequence[AnyOperator]],
) -> Sequence[AnyOperator]:
    """Return the program's own operators, importing them if necessary.

    Raises `ClickException` with the place in the author's file for a class that the library refuses. Other
    exceptions of the author's code are not caught.
    """
    if not callable(operators):
        return operators
    try:
        return operators()
    except (TypeError, ValueError, PydanticUserError) as error:
        frames = list(traceback.walk_tb(error.__traceback__))
        theirs = [
            (frame, line)
            for frame, line in frames[1:]
            if frame.f_globals.get("__name__", "").partition(".")[0] not in _LIBRARIES
        ]
        if not theirs or theirs[-1][0] is frames[-1][0]:
            raise
        frame, line = theirs[-1]
        said = " ".join(str(error).split("\n\nFor further information")[0].split())
        place = os.path.relpath(frame.f_code.co_filename)
        raise click.ClickException(f"{place}:{line}: {said}") from error


def installed_operators(operators: Sequence[AnyOperator], program: Program) -> dict[AnyOperator, str]:
    """Return the operators that are installed for `program` in addition to its own, each with its package.

    Raises `ClickException` for an entry point that cannot be loaded, or is no operator.
    """
    found: dict[AnyOperator, str] = {}
    for what, package, operator in loaded_entries(program.entry_points, "the operator {name}"):
        if not (isinstance(operator, type) and issubclass(operator, Operator) and hasattr(operator, "kind")):
            raise click.ClickException(f"{what}, is not an operator class with a kind")
        if operator not in operators:
            found.setdefault(operator, package)
    return found


def enabled_operators(
    operators: Sequence[AnyOperator], entries: Sequence[str], *, where: str
) -> tuple[AnyOperator, ...]:
    """Return the operators that `entries` enable, in the order of `operators`.

    Errors name the source `where`. `foo` enables foo, `-foo` disables it, and `*` enables all operators
    without an entry. Raises `SettingsError` for an unknown name, and if no operator remains.
    """
    check_names(operators, (entry.removeprefix("-") for entry in entries if entry != _ALL), where=where)
    first = {entry.removeprefix("-"): entry for entry in reversed(entries)}
    unnamed = set() if _ALL not in entries else {each.name for each in operators} - first.keys()
    chosen = tuple(each for each in operators if first.get(each.name) == each.name or each.name in unnamed)
    if not chosen:
        hint = "; to run all but some, begin with '*', as in '*,-foo'" if _ALL not in entries else ""
        raise SettingsError(f"{where}: {','.join(entries)!r} leaves no controller to run{hint}")
    return chosen


def check_names(operators: Sequence[AnyOperator], names: Iterable[str], *, where: str) -> None:
    """Raise `SettingsError`, which names the source `where`, for the first name that no operator has."""
    known = [operator.name for operator in operators]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise SettingsError(
                f"{where}: unknown controller {name!r}; {hint}the controllers are {', '.join(known)}"
            )


def declared_settings(operators: Sequence[AnyOperator], program: Program) -> tuple[Setting[Any], ...]:
    """Return the settings that `operators` declare, in their order; a shared setting occurs once.

    Raises `SettingsError` for two settings with the same name, and for a name that belongs to the manager or
    to Kubernetes.
    """
    owners = {"--help": _MANAGER}
    for setting in OWN:
        owners |= dict.fromkeys((setting.flag, *setting.variables(program)), _MANAGER)
    declared: dict[Setting[Any], None] = {}
    for operator in operators:
        for setting in operator.declared_settings:
            if setting in declared:
                continue
            declared[setting] = None
            owner = f"the operator {operator.name}"
            for name in (setting.flag, setting.variable):
                if name in owners:
                    raise SettingsError(
                        f"{owner} declares {setting.flag}, but {name} belongs to {owners[name]}"
                    )
                owners[name] = owner
            if SERVICE_LINK.search(setting.variable):
                raise SettingsError(
                    f"{owner} declares {setting.flag}, but Kubernetes sets {setting.variable} for a Service "
                    "of that name: give the flag another name"
                )
            if setting.variable.startswith(program.variables):
                raise SettingsError(
                    f"{owner} declares {setting.flag}, but {program.variables}* is the manager's own"
                )
    return tuple(declared)


def owned_by(operators: Sequence[AnyOperator]) -> dict[GroupVersionKind, list[GroupVersionKind]]:
    """Return the declared kinds of children for each operator's kind."""
    owned: dict[GroupVersionKind, list[GroupVersionKind]] = {}
    for operator in operators:
        kinds = owned.setdefault(operator.kind.gvk, [])
        kinds += [each.kind.gvk for each in operator.sources if isinstance(each, Owns)]
    return {kind: list(dict.fromkeys(each)) for kind, each in owned.items()}
