"""A few examples for every fuzz target; `make fuzz` tries more."""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz.targets import TARGETS, run


@pytest.mark.parametrize("name", TARGETS)
def test_fuzzed_function_raises_only_the_error_types_that_it_declares(name: str):
    run(name, examples=20, number=1 if os.environ.get("CI") else random.randrange(1_000_000))
