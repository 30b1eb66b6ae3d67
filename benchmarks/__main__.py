"""Run the suite; `--help` says more."""

from __future__ import annotations

from benchmarks.cli import main

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
