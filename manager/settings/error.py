"""A setting that cannot be used."""

from __future__ import annotations


class SettingsError(Exception):
    """A wrong flag, environment variable, file or key: one line that names it and says what is expected."""
