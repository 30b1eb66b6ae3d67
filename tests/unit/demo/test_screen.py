from __future__ import annotations

import os
import pty

import pytest
from rich.console import Console

from demo.screen import View


@pytest.mark.skipif(not hasattr(pty, "openpty"), reason="no terminals here")
def test_a_terminal_that_was_closed_is_lost() -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as file:
        view = View(Console(file=file))
        before = view.lost
        os.close(leader)
        assert (before, view.lost) == (False, True)
