"""`make demo` as a person starts it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

import pytest

from demo.recording import CELL_WIDTH, MARGIN, PICTURE
from tests.support import ROOT

WITHIN = 180.0


def command(folder: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "demo", f"--folder={folder}", *flags]


def test_demo_ends_by_itself_when_everything_is_ready(tmp_path: Path):
    done = subprocess.run(
        command(tmp_path, "--once"), cwd=ROOT, capture_output=True, text=True, timeout=WITHIN, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "memcached/memcached-sample: ready  Available=True" in done.stdout
    assert "event  memcached/memcached-sample: Created: " in done.stdout
    refusal = (
        'The Pet "pet-unborn" is invalid: spec.birthday: Invalid value: "2999-01-01": must not be in the'
    )
    assert f"! pet/pet-unborn: refused: {refusal} future" in done.stdout
    old, new = "v1alpha1 type dog 2015-06-30T00:00:00Z", "v1beta1 species dog 2015-06-30"
    assert f"pet/pet-old: converted: {old} -> {new}" in done.stdout
    assert "pet/pet-old: ready  Ready=True" in done.stdout
    assert "KUBECONFIG" not in done.stdout  # a stopped demo serves no commands
    assert done.stdout.rstrip().endswith("make demo: everything became ready.")
    assert done.stderr == ""


@pytest.mark.whole
def test_demo_runs_until_ctrl_c_and_refuses_a_second_demo(tmp_path: Path):
    process = subprocess.Popen(command(tmp_path), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = read_until(process.stdout, "logs ")
        assert f"export KUBECONFIG={tmp_path}/kubeconfig" in told
        health = re.search(r"health +(http://\S+)", told)
        assert health is not None
        with urllib.request.urlopen(health[1], timeout=5) as answer:
            assert answer.status == 200
        other = subprocess.run(command(tmp_path), cwd=ROOT, capture_output=True, text=True, check=False)
        assert other.returncode == 1
        assert f"another demo runs in {tmp_path}: process {process.pid}, since " in other.stdout
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=WITHIN)
        assert process.returncode == 0
        assert rest.rstrip().endswith("make demo: stopped.")
    finally:
        process.kill()


@pytest.mark.skipif(not hasattr(pty, "openpty"), reason="no terminals here")
@pytest.mark.whole
def test_demo_shows_a_live_view_on_a_terminal(tmp_path: Path):
    leader, follower = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(
        command(tmp_path, "--once"), cwd=ROOT, env=environ, stdout=follower, stderr=follower
    )
    os.close(follower)
    shown = b""
    try:
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # Linux reports the end of a terminal so
                break
            if not piece:
                break
            shown += piece
        assert process.wait(WITHIN) == 0, shown.decode()
    finally:
        process.kill()
        os.close(leader)
    text = shown.decode()
    assert "\x1b[H" in text
    # The last drawing stays on the screen.
    seen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.rpartition("\x1b[?1049l")[2])
    assert above_events(seen) == above_events(of_the_readme("$ kubectl scale"))
    assert "Available" in seen.partition("Events")[2]
    assert max(map(len, seen.replace("\r", "").split("\n"))) <= 80
    assert "Traceback" not in text


def of_the_readme(typed: str) -> str:
    """Return the README's picture of the output for this command."""
    text = PICTURE.read_text()
    groups = ElementTree.fromstring(text).findall("{*}g")
    spans = [
        (min(at), max(at))
        for each in re.findall(r"@keyframes k\d+\{(.*)\}", text)
        for at in [[float(part) for part in re.findall(r"(\d+\.\d+)%", each)]]
    ]
    (now,) = [
        began
        for group, (began, _) in zip(groups, spans, strict=True)
        if any((piece.text or "").startswith(typed) for piece in group)
    ]
    lines: dict[float, str] = {}
    for group, (began, ended) in zip(groups, spans, strict=True):
        for piece in group if began <= now < ended else ():
            y, column = float(piece.attrib["y"]), round((float(piece.attrib["x"]) - MARGIN) / CELL_WIDTH)
            lines[y] = lines.get(y, "").ljust(column) + (piece.text or "")
    return "\n".join(line for _, line in sorted(lines.items()))


def above_events(text: str) -> list[str]:
    """Return the lines above the Events, without the store's identifiers, which vary."""
    above = text[text.index("Custom resources") : text.index("Events   ")]
    return [re.sub(r"ID [-0-9a-f]+", "ID", line.rstrip()) for line in above.splitlines()]


def read_until(stream: IO[str], wanted: str) -> str:
    """Return the lines up to the one that contains `wanted`."""
    deadline = time.monotonic() + WITHIN
    told = ""
    while wanted not in told:
        line = stream.readline()
        assert line, told
        assert time.monotonic() < deadline, told
        told += line
    return told
