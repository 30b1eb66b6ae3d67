"""The program `dask-operators`: `python -m examples.dask run`."""

from __future__ import annotations

import sys

from examples.dask.operators import OPERATORS
from manager.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], OPERATORS, name="dask-operators", version="1.0.0"))
