"""The program `cronjobs`: `python -m examples.cronjob run`."""

from __future__ import annotations

import sys

from examples.cronjob.operator import CronJobOperator
from manager.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], (CronJobOperator,), name="cronjobs", version="1.0.0"))
