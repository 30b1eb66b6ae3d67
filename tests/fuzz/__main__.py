"""`make fuzz SECONDS=60`: runs all targets in turn with new examples until the time has passed."""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.fuzz.targets import TARGETS, run

ROUND = 100
"""Number of examples for each seed."""


def main() -> int:
    """Run the fuzz targets until the time has passed; return 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after this time; default 60")
    parser.add_argument("--seed", type=int, help="try only the examples of this seed of an earlier run")
    parser.add_argument("--only", choices=TARGETS, metavar="TARGET", help=f"one of {', '.join(TARGETS)}")
    options = parser.parse_args()
    names = [options.only] if options.only else list(TARGETS)
    number = int(time.time()) if options.seed is None else options.seed
    until = time.monotonic() + options.seconds
    rounds, found = dict.fromkeys(names, 0), set[str]()
    while len(found) < len(names) and (options.seed is None or not any(rounds.values())):
        for name in names:
            if name in found or (time.monotonic() > until and rounds[name]):
                continue
            rounds[name] += 1
            try:
                run(name, examples=ROUND, number=number)
            except Exception:  # noqa: BLE001 - that is what is looked for
                found.add(name)
                traceback.print_exc()
                print(
                    f"\nfuzz: {name} has found this; again: make fuzz ARGS='--only={name} --seed={number}'\n"
                )
        number += 1
        if time.monotonic() > until:
            break
    for name in names:
        print(f"{name:20} {rounds[name] * ROUND:7} examples{', and a fault' if name in found else ''}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
