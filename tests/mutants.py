"""`make mutants`: makes small faults in the code with mutmut, and lists the faults that no test finds.

The folder `mutants/` has the faulty code and its tests; no source file changes. A program that a test starts
has no fault.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys

from mutmut.__main__ import _run, collect_source_file_mutation_data, create_mutants
from mutmut.configuration import config
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code


def main() -> int:
    """Test the chosen mutants; return 0 if all were tested, even if some survived; otherwise return 1."""
    settings = config()
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="choose the mutants by this seed; default 1")
    add("--count", type=int, default=200, help="number of mutants; default 200")
    codes = "change the files that match, such as 'manager/tls/*'; default: cache, controller and client"
    add("--code", nargs="+", default=settings.only_mutate, metavar="PATTERN", help=codes)
    tests = settings.pytest_add_cli_args_test_selection
    add(
        "--tests",
        nargs="+",
        default=tests,
        metavar="PATH",
        help=f"run these tests; default: {', '.join(tests)}",
    )
    add("--workers", type=int, default=2, metavar="N", help="number of processes; default 2")
    options = parser.parse_args()
    settings.only_mutate, settings.pytest_add_cli_args_test_selection = options.code, options.tests
    os.environ["CI"] = "1"  # so Hypothesis keeps no examples of one mutant for the next

    shutil.rmtree("mutants", ignore_errors=True)
    create_mutants(options.workers)
    found, _ = collect_source_file_mutation_data(mutant_names=())
    names = sorted(name for _, name, _ in found)
    chosen = sorted(random.Random(options.seed).sample(names, min(options.count, len(names))))
    _run(chosen, options.workers)

    tried, _ = collect_source_file_mutation_data(mutant_names=chosen)
    ended = {name: status_by_exit_code[code] for _, name, code in tried}
    for name, status in ended.items():
        if status == "survived":
            print(get_diff_for_mutant(name))
    for status in sorted(set(ended.values())):
        print(f"mutants: {list(ended.values()).count(status)} {status}")
    return int("not checked" in ended.values())


if __name__ == "__main__":
    sys.exit(main())
