from __future__ import annotations

import gc

import pytest

from manager.util.garbage import settle, tune_garbage_collector

pytestmark = pytest.mark.usefixtures("gc_thresholds")


def test_tune_garbage_collector_makes_collections_rare():
    tune_garbage_collector()
    assert gc.get_threshold()[0] > 10_000


def test_settle_call_freezes_existing_objects_in_the_garbage_collector():
    kept = [[]]
    before = gc.get_freeze_count()
    settle()
    assert gc.get_freeze_count() > before
    assert kept
