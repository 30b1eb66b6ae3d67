"""Runs a scene (a sequence of kubectl commands) with one kubectl on one control plane; returns the output."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from tests.conformance.kubectl.scene import Command, Scene
from tests.conformance.mask import Mask
from tests.support.api_objects import create_namespace
from tests.support.certificates import Authority
from tests.support.control_plane import KUBECTL, ControlPlane
from tests.support.envtest import VARIABLE

DURATION = r"(?:\d+[dhms]){1,2}"
BEFORE = [
    (re.compile(r"(?m)^((?:Client|Kustomize) Version): .*"), r"\1: <version>"),
    (re.compile(r"/tmp/kubectl-edit-\d+"), "/tmp/kubectl-edit"),
    (re.compile(r"(Resource Version: +)\d+"), r"\1<version>"),
    (re.compile(r"(certificate is valid for ).*(, not )"), r"\1<names>\2"),
    (re.compile(r"(nodePort\"?: )\d+"), r"\1<node port>"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<date>"),
    # kubectl's own log lines, which depend on its retries.
    (re.compile(r"(?m)^[EWI]\d{4} [\d:.]+ +\d+ (?:memcache|reflector)\.go.*\n"), ""),
    (re.compile(r"(?m)^[EWI]\d{4} [\d:.]+ +\d+ "), "<log> "),
    (re.compile(r"/tmp/(LIVE|MERGED)-\d+/(\S+)\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}"), r"\1/\2"),
    (re.compile(r"/tmp/(LIVE|MERGED)-\d+"), r"\1"),
    (re.compile(r"((?:pod-template|controller-revision)-hash\"?[=:] ?\"?)[\w-]+"), r"\1<hash>"),
    (re.compile(r"\bnode-[0-2]\b(?:/[\d.]+)?"), "<node>"),
    (re.compile(r"\(x\d+ over [^)]*\)"), "(<again>)"),
    (re.compile(rf"\b{DURATION} ago\b"), "<age> ago"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), "<token>"),
]
# A whole column; not `cpu: 100m`.
AGE = re.compile(rf"(?m)(^|(?<=\S)(?<!cpu:)  +|\t)(?:{DURATION}|<unknown>|<invalid>)(?=  |\t| \(|$)")
# Spaces between columns, not after the first character of a diff line.
GAP = re.compile(r"(?<=.\S)  +(?=\S)")
# The order of the lines below these headings varies.
UNORDERED = ("Events:", "Conditions:")
# Lines of `explain` with the description of a kind or field, or with blanks; not the fields themselves.
DESCRIPTION = re.compile(r"\s*$|    [^\t]+$|DESCRIPTION:$")


def without_descriptions(lines: list[str]) -> list[str]:
    """Remove the descriptions and the repeated nested fields from the output of `explain`."""
    return _without_repetition([line for line in lines if not DESCRIPTION.match(line)], {})


def _without_repetition(lines: list[str], seen: dict[tuple[str, ...], str], path: str = "") -> list[str]:
    """Replace repeated nested lines by a reference to the field in `seen` that had the lines first."""
    kept: list[str] = []
    while lines:
        line, *lines = lines
        depth = _depth(line)
        end = next((number for number, each in enumerate(lines) if _depth(each) <= depth), len(lines))
        below, lines = lines[:end], lines[end:]
        here = f"{path}.{line.split()[0]}" if line.strip() else path
        key = tuple(each[depth:] for each in below)
        if len(below) > 1 and key in seen:
            kept.append(f"{line}, as {seen[key]}")
        else:
            seen[key] = here
            kept += [line, *_without_repetition(below, seen, here)]
    return kept


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def shown(text: str, mask: Mask, *, unordered: bool = False) -> list[str]:
    """Return the masked lines of a text; columns have the width of their masked contents."""
    for pattern, instead in BEFORE:
        text = pattern.sub(instead, text)
    # kubectl aligns table columns by their contents.
    text = AGE.sub(r"\1<age>", text)
    lines = [GAP.sub("  ", line).rstrip() for line in mask.text(text).splitlines()]
    lines = _sort_sections(lines)
    return sorted(lines) if unordered else lines


def _sort_sections(lines: list[str]) -> list[str]:
    """Sort the Events, conditions and causes in the output of `describe`; drop duplicate Events."""
    kept: list[str] = []
    section: set[str] | None = None
    for line in [*lines, ""]:
        if section is not None and line.startswith("  "):
            section.add(re.sub(r"  <age>(?: \(<again>\))?", "", line))
            continue
        kept += sorted(section or ())
        kept.append(line)
        section = set() if line in UNORDERED else None
    # The real server may print several causes of an error in any order.
    runs = itertools.groupby(kept[:-1], lambda line: line.startswith("* "))
    return [line for are_causes, lines in runs for line in (sorted(lines) if are_causes else lines)]


TIMEOUT = 120.0
EVERY = 0.1
PRINTED = ("stdout", "stderr", "exit")
ONE_AT_A_TIME = threading.Lock()
Output = dict[str, Any]


@functools.cache
def version_of(program: Path) -> str:
    """Return a kubectl's version, such as `1.36`."""
    done = subprocess.run(
        [program, "version", "--client", "-o", "json"], capture_output=True, check=True, timeout=TIMEOUT
    )
    client = json.loads(done.stdout)["clientVersion"]
    return f"{client['major']}.{client['minor'].rstrip('+')}"


def programs() -> list[Path]:
    """Return the paths of kubectl in the envtest assets and on the PATH, if they exist; one per version."""
    assets = os.environ.get(VARIABLE)
    places = [shutil.which("kubectl", path=assets) if assets else None, shutil.which("kubectl")]
    found = [Path(place) for place in places if place is not None]
    return list({version_of(program): program for program in reversed(found)}.values())[::-1]


def play(scene: Scene, plane: ControlPlane, program: Path, folder: Path) -> dict[str, Output]:
    """Run the scene in `folder`; return the masked output of each recorded command by its label."""
    stage = _Stage(scene, plane, program, folder)
    try:
        return stage.play()
    finally:
        stage.clean_up()


def with_older(newest: dict[str, Output], older: dict[str, Output], version: str) -> dict[str, Output]:
    """Return the newest kubectl's output, and add the output of kubectl `version` where it differs."""
    kept = {}
    for label, output in newest.items():
        other = {
            name: older[label].get(name) for name in PRINTED if older[label].get(name) != output.get(name)
        }
        kept[label] = {**output, **({f"kubectl {version}": other} if other else {})}
    return kept


def printed(kept: dict[str, Output], version: str) -> dict[str, Output]:
    """Return the output of kubectl `version` from a result of `with_older`."""
    outputs = {}
    for label, each in kept.items():
        output = {**each, **each.get(f"kubectl {version}", {})}
        outputs[label] = {name: output[name] for name in PRINTED if output.get(name) is not None}
    return outputs


class _Stage:
    def __init__(self, scene: Scene, plane: ControlPlane, program: Path, folder: Path) -> None:
        self._scene = scene
        self._plane = plane
        self._program = program
        self._folder = folder
        self._id = f"conf-{secrets.token_hex(4)}"
        names = {self._id: "{id}", str(folder): "{folder}", plane.server: "{server}"}
        self._mask = Mask(names)

    def play(self) -> dict[str, Output]:
        self._build()
        outputs = {}
        for number, command in enumerate(self._scene.steps, 1):
            try:
                output = self._step(command)
            except Exception as error:
                raise AssertionError(f"command {number} ({command.run}): {error}") from error
            if output is not None:
                outputs[f"{number}: {command.run}"] = output
        return outputs

    def clean_up(self) -> None:
        for line in self._scene.cleanup:
            with contextlib.suppress(Exception):
                self._finished(line)
        with contextlib.suppress(Exception):
            self._plane.api.delete(f"/api/v1/namespaces/{self._id}")

    def _build(self) -> None:
        """Create the scene's namespace, and the folder in which kubectl runs."""
        create_namespace(self._plane, self._id)
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, content in self._scene.files.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._filled(content))
        us = self._plane.credentials
        us.write(self._folder / "kubeconfig", namespace=self._id)
        stranger = dataclasses.replace(us, authority=Authority("stranger").pem)
        stranger.write(self._folder / "stranger.kubeconfig", namespace=self._id)
        with ONE_AT_A_TIME:
            somebody = type(us).read(self._plane.user_kubeconfig("somebody"))
        somebody.write(self._folder / "somebody.kubeconfig", namespace=self._id)

    def _step(self, command: Command) -> Output | None:
        if command.stop_at:
            return self._interrupted(command)
        deadline = time.monotonic() + TIMEOUT
        while True:
            done = self._finished(command.run, stdin=command.input, editor=command.editor)
            if self._is_awaited(command, done):
                break
            assert time.monotonic() < deadline, f"timeout; last: {done}"
            time.sleep(EVERY)
        if command.unrecorded:
            return None
        return self._output(command, done.stdout, done.stderr, done.returncode)

    def _is_awaited(self, command: Command, done: subprocess.CompletedProcess[str]) -> bool:
        if command.until:
            return self._filled(command.until) in done.stdout + done.stderr
        return not command.unrecorded or done.returncode == 0

    def _output(self, command: Command, stdout: str, stderr: str, code: int) -> Output:
        if command.run.startswith("rollout status"):
            # Its output before the end depends on timing.
            stdout = "".join(stdout.splitlines(keepends=True)[-1:])
        printed = {
            stream: shown(text, self._mask, unordered=command.unordered)
            for stream, text in (("stdout", stdout), ("stderr", stderr))
        }
        if command.undescribed:
            printed["stdout"] = without_descriptions(printed["stdout"])
        output: Output = {stream: lines for stream, lines in printed.items() if lines}
        if code:
            output["exit"] = code
        return output

    def _finished(
        self, line: str, *, stdin: str | None = None, editor: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._arguments(line),
            cwd=self._folder,
            env=self._environ(editor),
            input=None if stdin is None else self._filled(stdin),
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def _interrupted(self, command: Command) -> Output:
        """Run a command; interrupt it when it has printed the text in `stop_at`."""
        process = subprocess.Popen(
            self._arguments(command.run),
            cwd=self._folder,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        too_late = threading.Timer(TIMEOUT, process.kill)
        too_late.start()
        lines: list[str] = []
        with process:
            for line in process.stdout:
                lines.append(line)
                if len(lines) == 1:
                    for meanwhile in command.meanwhile:
                        self._finished(meanwhile)
                if self._filled(command.stop_at) in line:
                    break
            process.send_signal(signal.SIGINT)
            process.stdout.read()
        too_late.cancel()
        found = any(self._filled(command.stop_at) in line for line in lines)
        assert found, f"timeout; printed: {''.join(lines)}"
        return self._output(command, "".join(lines), "", 0)

    def _arguments(self, line: str) -> list[str]:
        kubeconfig = [f"--kubeconfig={self._folder / 'kubeconfig'}"]
        words = shlex.split(self._filled(line))
        if any(word.startswith("--kubeconfig=") for word in words):
            kubeconfig = []
        return [str(self._program), *kubeconfig, f"--cache-dir={self._folder / 'cache'}", *words]

    def _environ(self, editor: str = "") -> dict[str, str]:
        own = {**KUBECTL, "KUBE_EDITOR": editor or "false", "LC_ALL": "C", "TMPDIR": "/tmp"}
        return {**os.environ, **own}

    def _filled(self, text: str) -> str:
        return text.replace("{id}", self._id)
