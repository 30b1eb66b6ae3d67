"""The docstrings of a model's attributes: the descriptions of its fields.

Read from the source, when definitions are made. Pydantic would do it for every model at import, and with it
every start of the manager would read and parse what only the command `crds` prints.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap

from pydantic import BaseModel

__all__ = ["attribute_docs"]


def attribute_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field that has one, inherited fields included."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            docs |= _own_docs(base)
    return docs


def _own_docs(model: type[BaseModel]) -> dict[str, str]:
    """What stands right below the attributes in the body of this very class."""
    try:
        source = textwrap.dedent(inspect.getsource(model))
    except (OSError, TypeError):
        return {}  # made at run time, or by a program that came without its source
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    return {
        attribute.target.id: inspect.cleandoc(below.value.value)
        for attribute, below in itertools.pairwise(definition.body)
        if isinstance(attribute, ast.AnnAssign)
        and isinstance(attribute.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
