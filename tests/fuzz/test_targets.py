"""A few examples for every fuzz target; `make fuzz` tries more."""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz.targets import TARGETS, run


@pytest.mark.parametrize("name", TARGETS)
def test_fuzz_target_raises_only_declared_errors(name: str):
    run(name, examples=20, number=1 if os.environ.get("CI") else random.randrange(1_000_000))
