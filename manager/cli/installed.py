"""Operators of other installed packages: what they name as entry points of the program's group."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

from manager.cli.errors import OperatorUnusable
from manager.operator import AnyOperator, Operator
from manager.program import Program

__all__ = ["installed_operators"]


def installed_operators(operators: Sequence[AnyOperator], program: Program) -> dict[AnyOperator, str]:
    """Those that are installed for `program` beside its own `operators`, each with where it comes from.

    They are in the order of their entry points' names. Raises `OperatorUnusable` for one that cannot be
    loaded, is no operator, or has the name of another one.
    """
    owners = {each.name: program.name for each in operators}
    found: dict[AnyOperator, str] = {}
    for entry in sorted(entry_points(group=program.entry_points), key=lambda each: (each.name, each.value)):
        operator, origin = _loaded(entry), _origin(entry)
        if operator in found or operator in operators:
            continue
        if operator.name in owners:
            raise OperatorUnusable(
                f"the operator {operator.name} of {origin} has the name of one of {owners[operator.name]}"
            )
        owners[operator.name] = found[operator] = origin
    return found


def _loaded(entry: EntryPoint) -> AnyOperator:
    what = f"the operator {entry.name} of {_origin(entry)}"
    try:
        found = entry.load()
    except Exception as error:
        said = " ".join(str(error).split())
        raise OperatorUnusable(
            f"{what}, {entry.value}, cannot be loaded: {type(error).__name__}: {said}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Operator) and hasattr(found, "kind")):
        raise OperatorUnusable(f"{what}, {entry.value}, is no class of an operator with a kind")
    return found


def _origin(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
