from __future__ import annotations

import gc
import importlib
import sys

import pytest

from manager.util.memory import imports_blocked, settle, tune_garbage_collector

pytestmark = pytest.mark.usefixtures("gc_thresholds")


def test_tune_garbage_collector_makes_collections_rare():
    tune_garbage_collector()
    assert gc.get_threshold()[0] > 10_000


def test_settle_function_moves_existing_objects_into_the_permanent_generation_of_the_gc():
    kept = [[]]
    before = gc.get_freeze_count()
    settle()
    assert gc.get_freeze_count() > before
    assert kept


def test_imports_blocked_prevents_only_imports_of_modules_not_loaded_yet(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "tabnanny", raising=False)
    with imports_blocked("tabnanny", "gc"):
        assert importlib.import_module("gc") is gc
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("tabnanny")
    assert importlib.import_module("tabnanny").check
