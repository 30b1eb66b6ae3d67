"""The entry point of `python -m benchmarks`, which runs all benchmarks; `--help` describes the options."""

from __future__ import annotations

from benchmarks.cli import main

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
