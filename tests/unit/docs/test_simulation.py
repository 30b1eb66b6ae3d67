"""The `Outside` example of docs/simulation.md runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

from manager import AnyOperator, Context, Operator
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from manager_tools.simulation import Outside, Replica, World, assert_holds

NAMES = {
    **{each.__name__: each for each in (Context, Greeting, Operator, Outside, Replica, World, assert_holds)},
    "AnyOperator": AnyOperator,
    "ClassVar": ClassVar,
    "__name__": __name__,
}


def names_of(code: str) -> dict[str, Any]:
    found = dict(NAMES)
    exec(compile(f"from __future__ import annotations\n{code}", "switchboard.py", "exec"), found)
    return found


def test_switchboard_simulation_fails_only_when_the_cleanup_method_is_removed():
    page = Path("docs/simulation.md").read_text()
    [code] = re.findall(r"```python\n# switchboard.py\n(.*?)```", page, re.DOTALL)
    names_of(code)["test_line_operator_holds"]()
    without_cleanup = re.sub(r"    async def cleanup.*?\n\n\n", "\n", code, flags=re.DOTALL)
    with pytest.raises(AssertionError, match="a deleted greeting still has a line"):
        names_of(without_cleanup)["test_line_operator_holds"]()
