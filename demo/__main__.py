"""The command line of the demo; `make demo` starts it."""
# ruff: noqa: PLC0415 - imports take 0.5 s, and Ctrl-C during that time must not print a traceback

from __future__ import annotations

import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run the demo and return its exit code: 0 after a clean end, 1 after a failure."""
    # Until the demo handles Ctrl-C, the signal just ends the process, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    import argparse
    import asyncio

    from demo.run import Demo
    from demo.screen import choose_screen

    parser = argparse.ArgumentParser(prog="make demo", description="run all operators without a cluster")
    parser.add_argument(
        "--once", action="store_true", help="end when all samples are ready (make demo ONCE=1)"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / ".local" / "demo", help="folder for files")
    parser.add_argument("--plain", action="store_true", help="print lines instead of a live view")
    arguments = parser.parse_args()
    screen = choose_screen(plain=arguments.plain or not sys.stdout.isatty())
    demo = Demo(root=ROOT, folder=arguments.folder, once=arguments.once, screen=screen)
    return asyncio.run(demo.run())


if __name__ == "__main__":
    sys.exit(main())
