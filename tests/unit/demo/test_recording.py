"""The README's picture fits a terminal, and is of the demo as it is."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

from demo.recording import ACTS, HEIGHT, PICTURE, WIDTH, Frame, Recording, Run, picture
from demo.run import look_further
from demo.samples import load_samples
from tests.support import ROOT
from tests.unit.demo.test_view import board

LARGEST = 200_000


def test_the_picture_is_small_and_has_every_sample_and_every_command():
    text = PICTURE.read_text()
    assert len(text.encode()) < LARGEST
    shown = [
        each.text or "" for each in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")
    ]
    for sample in load_samples(ROOT):
        if sample["kind"] != "Secret":
            title = f"{sample['kind'].lower()}/{sample['metadata']['name']}"
            assert any(title in each for each in shown), f"{title}: make picture"
    for act in ACTS:
        assert any(act in each for each in shown), f"{act}: make picture"


def test_each_command_is_one_that_the_demo_tells_of_and_fits_a_line():
    part: Any = SimpleNamespace(
        kubeconfig_path="k", command="p", address="a", console="c", metrics="m", health="h", log=Path("l")
    )
    hints = look_further(part, part, part).splitlines()
    for act in ACTS:
        (command,) = [line for line in hints if line.startswith(act)]
        assert len(re.sub(r"\s{2,}#.*", "", command)) <= WIDTH - 2


async def test_a_frame_is_kept_when_something_has_changed_and_fits_the_terminal(tmp_path: Path):
    recording = Recording(tmp_path)
    for pods in (20, 20, 3):
        recording.refresh(board(pods=pods), "")
    assert len(recording.frames) == 2
    for frame in recording.frames:
        assert len(frame.rows) == HEIGHT
        assert all(run.column + len(run.text) <= WIDTH for row in frame.rows for run in row)


def test_a_line_is_drawn_once_for_as_long_as_it_stays_and_the_end_is_seen_where_nothing_moves():
    empty = ((),) * (HEIGHT - 2)
    stays, goes, comes = (Run(2, text, "font-weight:bold") for text in ("stays", "a < b", "comes"))
    drawn = picture([Frame(0, ((stays,), (goes,), *empty)), Frame(2, ((stays,), (comes,), *empty))])
    ElementTree.fromstring(drawn)
    assert drawn.count("stays") == 1
    assert "a &lt; b" in drawn
    still = re.findall(r"#g(\d+)\{visibility:visible", drawn)
    seen = "".join(re.search(rf'<g id="g{number}">(.*?)</g>', drawn, re.DOTALL)[1] for number in still)
    assert "stays" in seen
    assert "comes" in seen
    assert "a &lt; b" not in seen
