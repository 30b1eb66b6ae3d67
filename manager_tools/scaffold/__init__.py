"""Scaffolding of a project and of further kinds: copies of a working template under other names."""

from __future__ import annotations

from manager_tools.scaffold.new_project import init, renew_library
from manager_tools.scaffold.webhooks import Answers, create_webhook
from manager_tools.scaffold.writing import Names, ScaffoldError, Written, create_api

__all__ = [
    "Answers",
    "Names",
    "ScaffoldError",
    "Written",
    "create_api",
    "create_webhook",
    "init",
    "renew_library",
]
