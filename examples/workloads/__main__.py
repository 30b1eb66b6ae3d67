"""The command line: `python -m examples.workloads`."""
# ruff: noqa: PLC0415 - imports take 0.7 s, in which Ctrl-C must not print a traceback

from __future__ import annotations

import asyncio
import signal
import sys


def main() -> int:
    """Run the program; return 0 after a clean end, 1 on failure. For a wrong flag, exit with 2."""
    # Before the program handles it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    from examples.workloads.options import parse_options
    from examples.workloads.program import run
    from manager.telemetry.logs import configured

    options = parse_options(sys.argv[1:])
    # The library's log is for operators; this program itself reports exceptions.
    with configured(level="error"):
        return asyncio.run(run(options))


if __name__ == "__main__":
    sys.exit(main())
