"""The code of docs/time.md runs."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import time
from pathlib import Path

import pytest

from tests.support import ROOT

_BLOCK = re.compile(r"```python\n# (?P<path>\S+\.py)\n(?P<code>.*?)```", re.DOTALL)
PAGE = (ROOT / "docs" / "time.md").read_text()
NAMES = {"apis.cronjob": "page_of_time_apis", "controllers.cronjob": "page_of_time_controllers"}


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder: Path = tmp_path_factory.mktemp("page")
    sys.path.insert(0, str(folder))
    found: dict[str, object] = {}
    try:
        for block in _BLOCK.finditer(PAGE):
            text = block["code"]
            for name, ours in NAMES.items():
                text = text.replace(name, ours)
            name = block["path"].removesuffix(".py").replace("/", ".")
            path = folder / f"{NAMES.get(name, 'page_of_time_tests')}.py"
            path.write_text(text)
            found = dict(vars(__import__(path.stem)))
    finally:
        sys.path.remove(str(folder))
    return found


@pytest.mark.parametrize(
    "name", ["test_cronjob_operator_keeps_the_last_three_jobs", "test_cronjob_operator_holds"]
)
def test_page_of_time_has_tests_that_pass(code: dict[str, object], name: str):
    test, before = code[name], time.monotonic()
    assert callable(test)
    if inspect.iscoroutinefunction(test):
        asyncio.run(test())
        assert time.monotonic() - before < 10
    else:
        test()
