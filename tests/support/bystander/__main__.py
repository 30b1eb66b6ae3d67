"""The program."""

from __future__ import annotations

import sys

from controllers.main import OPERATORS
from manager.cli import Operator, main

sys.exit(main(sys.argv[1:], (*OPERATORS, Operator("bystander", "tests.support.bystander.operator"))))
