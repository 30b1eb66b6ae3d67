"""`make mutants`: makes one small fault at a time in the code, and lists the faults that no test finds.

The faults are only in the memory of forked processes; no file changes. A program that a test starts has no
fault.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.places import Mutant, chosen, mutants_of
from tests.mutants.trial import FLAGS, Trials, Verdict

CODE = ("manager/cache", "manager/controller", "manager/client")
TIERS = (
    tuple(f"tests/unit/{each}" for each in ("cache", "controller", "client", "operator")),
    ("tests/unit",),
)


def main() -> int:
    """Test the mutants; return 0 if all were tested, even if some survived; otherwise return 1."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="choose the mutants by this seed; default 1")
    add("--count", type=int, default=200, help="number of mutants; default 200")
    codes = f"change these files and folders; default {' '.join(CODE)}"
    add("--code", nargs="+", type=Path, default=[*map(Path, CODE)], metavar="PATH", help=codes)
    tests = "run these tests; default: tests/unit, first those of cache, controller, client and operator"
    add("--tests", nargs="+", metavar="PATH", help=tests)
    add("--tests-of", metavar="COMMIT", help="use tests/ of this commit")
    add("--again", type=Path, metavar="FILE", help="test surviving and untried mutants of this --out file")
    add("--out", type=Path, metavar="FILE", help="write the result of each mutant to this file, as JSON")
    seconds = "CPU seconds for the tests of one mutant, the quickest first; default: no limit"
    add("--at-most", type=float, default=math.inf, metavar="SECONDS", help=seconds)
    add("--workers", type=int, default=2, metavar="N", help="number of processes; default 2")
    options = parser.parse_args()
    if options.tests_of:
        return with_tests_of(options.tests_of, options)
    mutants = mutants_of(options.code)
    if options.again:
        told = json.loads(options.again.read_text())
        keys = {each["mutant"] for each in told if each["outcome"] in {"survived", "untried"}}
        for key in sorted(keys - {each.key for each in mutants}):
            print(f"mutants: no longer in the code: {key}")
        mutants = [each for each in mutants if each.key in keys]
    else:
        mutants = chosen(mutants, options.seed, options.count)
    return try_all(mutants, options)


def try_all(mutants: list[Mutant], options: argparse.Namespace) -> int:
    """Test the mutants, and print each result."""
    # Then Hypothesis keeps no examples of one mutant for the next.
    os.environ["CI"] = "1"
    tiers = [options.tests] if options.tests else TIERS
    tried = itertools.count(1)

    def report(mutant: Mutant, verdict: Verdict) -> None:
        print(f"{next(tried)}/{len(mutants)} {verdict.outcome} {mutant.key} {verdict.by}", flush=True)
        keep()

    def keep() -> None:
        if options.out:
            entries = [{"mutant": each.key, **vars(trials.verdicts.get(each, Verdict()))} for each in mutants]
            options.out.write_text(json.dumps(entries, indent=1) + "\n")

    trials = Trials(options.code, mutants, tiers, options.workers, options.at_most, report)
    pytest.main([*dict.fromkeys(path for tier in tiers for path in tier), *FLAGS], plugins=[trials])
    keep()
    outcomes = Counter(verdict.outcome for verdict in trials.verdicts.values())
    for mutant, verdict in trials.verdicts.items():
        if verdict.outcome == "survived":
            print(f"\n{mutant.key}")
            before, after = (
                text.decode().splitlines() for text in (Path(mutant.file).read_bytes(), mutant.applied())
            )
            print("\n".join(difflib.unified_diff(before, after, mutant.file, mutant.file, lineterm="")))
    print(f"\nmutants: {', '.join(f'{count} {outcome}' for outcome, count in sorted(outcomes.items()))}")
    return 0 if trials.verdicts and "untried" not in outcomes else 1


def with_tests_of(commit: str, options: argparse.Namespace) -> int:
    """Test the mutants in a copy of the working tree, with the tests as they were in a commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    )
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        copy = Path(name)
        for file in map(Path, listed.stdout.decode().split("\0")):
            if file.is_file() and (file.parts[0] != "tests" or file.is_relative_to("tests/mutants")):
                (copy / file.parent).mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, copy / file)
        archive = subprocess.run(["git", "archive", commit, "tests"], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "--skip-old-files", "-C", copy], input=archive, check=True)
        words = [f"--{each}={getattr(options, each)}" for each in ("seed", "count", "workers")]
        words.append(f"--at-most={options.at_most}")
        files = {"again": options.again, "out": options.out}
        words += [f"--{name}={file.resolve()}" for name, file in files.items() if file]
        words += ["--code", *map(str, options.code)]
        words += ["--tests", *options.tests] if options.tests else []
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([name, os.environ.get("PYTHONPATH", "")])}
        return subprocess.run(
            [sys.executable, "-m", "tests.mutants", *words], cwd=copy, env=environ, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
