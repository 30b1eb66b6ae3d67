"""The code of docs/time.md runs."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from pathlib import Path

import pytest

from tests.support.markdown import Page, import_from

PAGE = Path("docs/time.md")
NAMES = {"apis.cronjob": "page_of_time_apis", "controllers.cronjob": "page_of_time_controllers"}


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    sources: dict[str, str] = {}
    for block in Page(PAGE).blocks():
        if file := re.match(r"# (\S+)\.py\n", block.text):
            text = block.text
            for name, ours in NAMES.items():
                text = text.replace(name, ours)
            sources[NAMES.get(file[1].replace("/", "."), "page_of_time_tests")] = text
    return dict(vars(import_from(tmp_path_factory.mktemp("page"), sources)[-1]))


@pytest.mark.parametrize(
    "name", ["test_cronjob_operator_keeps_the_last_three_jobs", "test_cronjob_operator_holds"]
)
def test_cronjob_example_test_of_the_time_page_passes(code: dict[str, object], name: str):
    test, before = code[name], time.process_time()
    assert callable(test)
    if inspect.iscoroutinefunction(test):
        asyncio.run(test())
        assert time.process_time() - before < 10
    else:
        test()
