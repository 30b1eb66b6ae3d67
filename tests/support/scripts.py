"""The programs in scripts/ as modules."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType

from tests.support import ROOT


def script(name: str) -> ModuleType:
    """Import scripts/NAME, which has no ending, as a new module."""
    spec = spec_from_loader(name, SourceFileLoader(name, str(ROOT / "scripts" / name)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
