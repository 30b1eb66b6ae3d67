"""The program `databases`: `python -m examples.database run`."""

from __future__ import annotations

import sys

from examples.database.operator import DatabaseOperator
from manager.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], (DatabaseOperator,), name="databases", version="1.0.0"))
