from __future__ import annotations

from tests.unit.cli.conftest import command, garbage_collector_as_it_was, no_settings_in_the_environment

__all__ = ["command", "garbage_collector_as_it_was", "no_settings_in_the_environment"]
