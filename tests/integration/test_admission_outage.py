"""Writes and reads while the manager does not run, and after its restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartControlPlane
from tests.support.control_plane import ControlPlane
from tests.support.envtest import BARE
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import MEMCACHEDS, memcached
from tests.support.pets import ALPHA, BETA, alpha, beta
from tests.support.webhook_manager import Person, wait_asked, webhook_manager
from tests.support.wordpresses import wordpress

REFUSED = "connection refused"


@pytest.fixture
def plane(own_control_plane: StartControlPlane) -> ControlPlane:
    return own_control_plane(parts=BARE, crds=True)


@pytest.fixture
def manager(plane: ControlPlane, tmp_path: Path) -> Iterator[ManagerProcess]:
    """Run a manager that serves the webhooks of all operators but reconciles only MySrvs."""
    with webhook_manager(plane, tmp_path / "manager", "--controllers=mysrv") as manager:
        yield manager


@pytest.fixture
def person(plane: ControlPlane, manager: ManagerProcess) -> Person:
    """Return a user who created an object of each kind before the outage."""
    person = Person(plane, "default")
    for each in (beta("thor"), memcached("m", size=1), memcached("down", size=0)):
        person.can("create", given=each)
    person.can("create", given=wordpress("blog"))
    return person


@pytest.mark.contract
def test_api_server_refuses_only_requests_that_need_the_webhook_while_the_manager_is_down(
    plane: ControlPlane, manager: ManagerProcess, person: Person
):
    manager.kill()
    # A refusal names the webhook and says that it does not answer; it does not blame the object.
    for pet in (beta("tron"), beta("x", birthday="2999-01-01")):
        said = person.cannot("create", given=pet)
        assert 'failed calling webhook "mpet-v1beta1.kb.io"' in said
        assert REFUSED in said
    # A webhook that only warns does not block writes.
    person.can("create", given=memcached("n", size=5000))
    person.can("create", given=wordpress("other"))
    # Only reads of a Pet in the other version need the webhook.
    assert person.reads(BETA, "thor")["spec"] == beta("thor")["spec"]
    assert person.sees(MEMCACHEDS) == ["down", "m", "n"]
    person.can("patch", BETA, "thor", "--subresource=status", "--type=merge", "-p", '{"status": {"id": "1"}}')
    said = person.cannot("get", ALPHA, "thor")
    assert "conversion webhook" in said
    assert REFUSED in said
    # Operations without a webhook rule still succeed.
    person.can("label", "wordpress", "blog", "seen=today")
    person.can("delete", BETA, "thor")
    person.can("delete", "memcached", "down")

    manager.start_again()
    manager.wait_ready()
    wait_asked(plane)
    assert person.can("create", given=beta("tron", species="CAT")) == []
    assert "must not be in the future" in person.cannot("create", given=beta("x", birthday="2999-01-01"))
    assert person.reads(ALPHA, "tron")["spec"] == alpha("tron", species="cat")["spec"]
