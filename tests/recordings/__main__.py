"""`make record`: run all cases with the control plane in KUBEBUILDER_ASSETS, and write the answers.

The command also renews devcluster's files that depend on Kubernetes: types, initial objects and the version.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.conformance.differences import differences
from tests.conformance.kubectl.stage import programs, version_of
from tests.recordings import generated, load_answers, versions, write_answers
from tests.recordings.parts import PARTS, Part
from tests.support.envtest import BARE, PROGRAMS, VARIABLE, EnvtestControlPlane, why_not

# kubectl mostly waits, but conversations running at the same time would affect each other.
AT_ONCE = {"kubectl": 3}
SHOWN = 20
PATIENCE = 60.0


class Refused(Exception):
    """Error: the answers cannot be recorded."""


def main() -> int:
    """Record the answers to the selected files of cases; return the exit code."""
    parser = argparse.ArgumentParser(prog="make record", description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        metavar="PART,...",
        help="a folder of cases, a file such as custom/rules, or devcluster: its generated files",
    )
    only = [each for each in parser.parse_args().only.split(",") if each]
    try:
        return _record(_wanted(only), only=bool(only), renew=not only or generated.NAME in only)
    except Refused as refused:
        print(f"make record: {refused}", file=sys.stderr)
        return 2


def _wanted(only: list[str]) -> list[Part]:
    for name in only:
        if name != generated.NAME and not any(name in {part.name, part.group} for part in PARTS):
            groups = ", ".join(sorted({generated.NAME, *(part.group for part in PARTS)}))
            raise Refused(f"--only={name}: there is no such part; the folders are {groups}")
    return [part for part in PARTS if not only or {part.name, part.group} & {*only}]


def _record(wanted: list[Part], *, only: bool, renew: bool) -> int:
    if problem := why_not():
        raise Refused(problem)
    found = [version_of(program) for program in programs()]
    if len(found) < 2:
        raise Refused("there has to be another kubectl on the PATH than the assets': both are recorded")
    now = {"kubernetes": _kubernetes(), "kubectl": found}
    if only and now != versions():
        raise Refused(
            f"the answers are of {_version_text(versions())}, this is {_version_text(now)}: record everything"
        )
    total = sum(part.answers for part in wanted)
    print(f"make record: {total} answers, in {len(wanted)} parts; all of them take some minutes", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        texts = _generated(Path(folder) / "generated", now["kubernetes"]) if renew else {}
        code = keep(now, _outcomes(wanted, Path(folder)))
    if code == 0:
        write_generated(texts)
    return code


def _generated(folder: Path, version: str) -> dict[Path, str]:
    parts = ("etcd", "apiserver", "controllers")
    try:
        with EnvtestControlPlane(folder, parts=parts) as plane:
            return generated.renewed(plane, version)
    except AssertionError as error:
        raise Refused(f"devcluster's own files: {error}") from error


def write_generated(texts: Mapping[Path, str]) -> None:
    """Write the files whose content changes; print how many lines changed."""
    for path, text in texts.items():
        before, after = path.read_text().splitlines() if path.exists() else [], text.splitlines()
        new, gone = len({*after} - {*before}), len({*before} - {*after})
        path.write_text(text)
        print(f"{path.parent.name}/{path.name}: {new or 'no'} new lines, {gone or 'none'} gone", flush=True)


def keep(now: dict[str, Any], outcomes: Iterable[tuple[Part, dict[str, Any] | AssertionError]]) -> int:
    """Write the answers after all files of cases are recorded; return the exit code.

    If Kubernetes or kubectl has a new version and a recording failed, write nothing: versions never mix.
    """
    answers: dict[str, dict[str, Any]] = {}
    asked = changed = failed = 0
    for part, outcome in outcomes:
        if isinstance(outcome, AssertionError):
            print(f"{part.name}: not recorded: {outcome}", flush=True)
            failed += 1
            continue
        told = _changes(load_answers(part.name), outcome)
        print(f"{part.name}: {part.answers} answers, {len(told) or 'none'} changed", flush=True)
        for lines in told.values():
            print("\n".join(f"  {line}" for line in lines[:SHOWN]))
        answers[part.name] = outcome
        asked, changed = asked + part.answers, changed + len(told)
    of = f"{asked} answers of Kubernetes {now['kubernetes']}, {changed or 'none'} changed"
    print(f"make record: {of}" + (f"; {failed} parts not recorded" if failed else ""))
    if failed and now != versions():
        print(f"make record: nothing is written: the answers stay those of {_version_text(versions())}")
        return 1
    for name, each in answers.items():
        write_answers(name, each)
    write_answers("versions", now)
    return 1 if failed else 0


def _kubernetes() -> str:
    """Return the version of the API server in the assets, such as `v1.36.3`."""
    command = [Path(os.environ[VARIABLE]) / PROGRAMS["apiserver"], "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return done.stdout.split()[-1]


def _version_text(which: dict[str, Any]) -> str:
    if not which:
        return "no version"
    return f"{which['kubernetes']} with kubectl {', '.join(which['kubectl'])}"


def _outcomes(wanted: list[Part], folder: Path) -> Iterator[tuple[Part, dict[str, Any] | AssertionError]]:
    """Yield each part with its answers or error; each group has its own server, bare parts share others."""

    def outcome(part: Part) -> dict[str, Any] | AssertionError:
        try:
            answers = part.record(plane, folder / part.name)
        except AssertionError as error:
            return error
        assert list(answers) == list(part.cases), f"{part.name}: the answers are not those of the cases"
        return answers

    planes = groupby(wanted, lambda part: ("" if part.bare else part.group, part.flags))
    for number, ((group, flags), members) in enumerate(planes):
        parts = list(members)
        used = tuple(PROGRAMS) if group else BARE
        with (
            EnvtestControlPlane(folder / f"plane-{number}", parts=used, apiserver_flags=flags) as plane,
            ThreadPoolExecutor(AT_ONCE.get(group, 1)) as pool,
        ):
            yield from zip(parts, pool.map(outcome, parts), strict=True)


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[str]]:
    """Return a description of the changed fields of each changed answer."""
    found = {}
    for name in [*before, *(name for name in after if name not in before)]:
        if before.get(name) != after.get(name):
            old, new = ({name: each[name]} if name in each else {} for each in (before, after))
            found[name] = [text for _, text in differences(old, new)]
    return found


if __name__ == "__main__":
    sys.exit(main())
