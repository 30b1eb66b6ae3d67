"""What the manager can be told: by flags, by the environment, by a file, else by defaults."""

from __future__ import annotations

from manager.settings.declared import load_declared
from manager.settings.error import SettingsError
from manager.settings.load import given_by, load_settings
from manager.settings.model import Settings
from manager.settings.sources import Sources

__all__ = ["Settings", "SettingsError", "Sources", "given_by", "load_declared", "load_settings"]
