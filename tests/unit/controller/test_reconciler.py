from __future__ import annotations

import math
from typing import Any

import pytest

from manager.controller.reconciler import ControllerOptions


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_concurrent_reconciles": 0},
        {"reconcile_timeout": 0.0},
        {"rate_limit": -1.0},
        {"resync_period": 0.0},
        {"backoff_base": 0.0},
        {"backoff_base": 10.0, "backoff_cap": 1.0},
        {"max_concurrent_reconciles": "4"},
        {"max_concurrent_reconciles": True},
        {"resync_period": "10h"},
        {"needs_leader_election": 1},
        {"max_concurrent_rollouts": 0},
        {"backoff_cap": None},
        {"rate_limit": math.nan},
        {"rate_limit": math.inf},
        {"backoff_cap": math.inf},
    ],
)
def test_controller_options_error_names_the_option_with_an_invalid_value(wrong: dict[str, Any]):
    with pytest.raises((TypeError, ValueError), match=f"^{next(iter(wrong))} "):
        ControllerOptions(**wrong)
