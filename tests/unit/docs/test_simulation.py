"""The example of docs/simulation.md of what is outside of the cluster runs."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest
from pydantic import Field

from manager import AnyOperator, Context, Operator
from manager.api import ApiModel, Resource, crd
from manager_tools.simulation import Outside, Replica, World, assert_holds
from tests.support import ROOT

PAGE = (ROOT / "docs" / "simulation.md").read_text()
NAMES = {
    each.__name__: each
    for each in (AnyOperator, Context, Operator, Outside, Replica, World)
    if hasattr(each, "__name__")
}


class GreetingSpec(ApiModel):
    """Spec of a greeting."""

    name: str = "you"


@crd()
class Greeting(Resource, group="hello.example.com", version="v1", plural="greetings"):
    """The greeting of the tutorial."""

    spec: GreetingSpec = Field(default_factory=GreetingSpec)


def names_of(code: str) -> dict[str, Any]:
    found = {**NAMES, "AnyOperator": AnyOperator, "ClassVar": ClassVar, "Greeting": Greeting}
    found |= {"assert_holds": assert_holds, "__name__": __name__}
    exec(compile(f"from __future__ import annotations\n{code}", "switchboard.py", "exec"), found)
    return found


def test_page_of_simulation_has_an_outside_that_holds():
    [code] = re.findall(r"```python\n# switchboard.py\n(.*?)```", PAGE, re.DOTALL)
    names_of(code)["test_line_operator_holds"]()
    without_cleanup = re.sub(r"    async def cleanup.*?\n\n\n", "\n", code, flags=re.DOTALL)
    with pytest.raises(AssertionError, match="a deleted greeting still has a line"):
        names_of(without_cleanup)["test_line_operator_holds"]()
