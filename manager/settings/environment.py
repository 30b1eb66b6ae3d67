"""Environment variables that look like settings and are none."""

from __future__ import annotations

import os
import re

from manager.program import Program
from manager.settings.model import Settings
from manager.settings.origin import env_names

_SERVICE_LINK = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
"""What a kubelet sets in every pod for each Service, one named as the program included."""


def unknown_variables(program: Program) -> tuple[str, ...]:
    """Variables that begin as the settings of `program` do but set nothing: most likely mistyped."""
    known = {name for field in Settings.model_fields for name in env_names(field, program)}
    return tuple(
        sorted(
            name
            for name in os.environ
            if name.startswith(program.variables) and name not in known and not _SERVICE_LINK.search(name)
        )
    )
