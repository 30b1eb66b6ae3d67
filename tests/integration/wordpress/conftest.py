"""Fixtures for the tests of the Wordpress operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import RunManager
from tests.support.control_plane import ControlPlane
from tests.support.wordpresses import WordpressWalk


@pytest.fixture
def walk(
    crds: ControlPlane, storage: None, namespace: str, run_manager: RunManager
) -> Iterator[WordpressWalk]:
    """Run the operator in a namespace; assert at the end that it logged no error."""
    flags = (f"--namespaces={namespace}", "--controllers=wordpress", "--log-level=debug")
    walk = WordpressWalk(crds, namespace, run_manager(crds.kubeconfig, *flags).wait_ready())
    yield walk
    assert not walk.errors()
