"""The entry point of `python -m benchmarks.shards`."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import benchmarks.shards
from benchmarks.machine import describe
from benchmarks.program import ROOT
from benchmarks.shards.figures import Figures
from benchmarks.shards.page import RAW, section
from benchmarks.shards.replica import SHARDS
from benchmarks.shards.session import NAMESPACES, measure
from manager.util.version import VERSION
from tests.support.envtest import VARIABLE, why_not

if TYPE_CHECKING:
    from collections.abc import Sequence

OBJECTS, FEWEST = 20_000, 200
# The number of all objects divided by the number of changed objects.
CHANGED = 20
FIGURES = ROOT / "docs" / "benchmarks" / RAW


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.shards",
        description=benchmarks.shards.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--objects", type=int, default=OBJECTS, metavar="N", help=f"{FEWEST} objects or more (%(default)s)"
    )
    parser.add_argument("--write", action="store_true", help="store the figures for the page of benchmarks")
    options = parser.parse_args(arguments)
    if options.objects < FEWEST:
        parser.error(f"--objects must be at least {FEWEST}, so that each shard has some")
    if problem := why_not():
        parser.error(problem)
    figures = run(options.objects)
    print(section(figures))
    if options.write:
        figures.write(FIGURES)
        print("python -m benchmarks --render puts the figures on the page", file=sys.stderr)
    return 0


def run(objects: int) -> Figures:
    began = time.monotonic()

    def step(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s: {what}", file=sys.stderr)

    figures = Figures(
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        minutes=0.0,
        machine=describe(Path(os.environ[VARIABLE])),
        version=f"operator-manager {VERSION}, Python {platform.python_version()}",
        others=round(os.getloadavg()[0], 1),
        objects=objects,
        namespaces=len(NAMESPACES),
        shards=SHARDS,
        load=objects // CHANGED,
        idle_mb=0.0,
    )
    measure(figures, step)
    figures.minutes = round((time.monotonic() - began) / 60, 1)
    return figures


if __name__ == "__main__":
    sys.exit(main())
