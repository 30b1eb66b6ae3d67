"""What the pages show of a terminal, done: the same commands print the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.control_plane import Feature
from tests.support.crds import install_crds
from tests.support.documented_commands import WALKED
from tests.support.markdown import Page
from tests.support.terminal import Terminal
from tests.support.transcript import commands

if TYPE_CHECKING:
    from tests.conftest import RunManager, StartControlPlane

OURS = "memcacheds,foos,pets,wordpresses,mysrvs"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", WALKED)
def test_what_a_page_shows_is_what_comes(
    page: str, own_control_plane: StartControlPlane, run_manager: RunManager, tmp_path: Path
) -> None:
    plane = own_control_plane().require(Feature.WORKLOADS, Feature.READY_PODS)
    install_crds(plane)
    with Terminal(plane, tmp_path / "terminal") as terminal:
        manager = run_manager(
            plane.kubeconfig,
            f"--petstore-address={terminal.petstore_address}",
            "--leader-elect=false",
        ).wait_ready()
        for block in Page(Path(page)).blocks():
            if block.language == "console":
                for command in commands(block):
                    terminal.follow(command)
        # Pets among them, which need the store that the page has started.
        terminal.run(f"kubectl delete {OURS} --all")
        manager.stop()
