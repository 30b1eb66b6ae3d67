"""The program."""

from __future__ import annotations

import os
import sys

from controllers.main import OPERATORS
from manager.cache import reflector
from manager.cli import Operator, main

if seconds := os.environ.get("BYSTANDER_WATCH_SILENCE"):
    reflector.IDLE_TIMEOUT = float(seconds)

sys.exit(main(sys.argv[1:], (*OPERATORS, Operator("bystander", "tests.support.bystander.operator"))))
