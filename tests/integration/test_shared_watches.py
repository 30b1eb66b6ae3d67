"""All operators of a process share one watch for each kind and projection.

Whoever adds an operator adds to `WATCHES` what it has to see; the other operators' entries stay as they are.
The first test holds the table against what each operator asks for, the others against what a running manager
asks of an API server.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

import pytest

from controllers.main import OPERATORS
from tests.support.eventually import eventually
from tests.support.fault_proxy import Match
from tests.unit.controllers.operator_world import OperatorWorld

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane
    from tests.support.fault_proxy import Exchange, FaultProxy
    from tests.support.manager_process import ManagerProcess

Watch = tuple[str, str]
"""A kind, as `kubectl get` takes it, and how much of each object is wanted: `full` or `metadata`."""

WATCHES: dict[str, set[Watch]] = {
    "memcached": {
        ("memcacheds.cache.example.com", "full"),
        ("deployments.apps", "full"),
        ("pods", "metadata"),
    },
    "foo": {("foos.tutorial.my.domain", "full"), ("pods", "metadata")},
    "pet": {("pets.petstore.example.com", "full")},
    "wordpress": {
        ("wordpresses.example.com", "full"),
        ("deployments.apps", "full"),
        ("services", "full"),
        ("persistentvolumeclaims", "full"),
        ("secrets", "metadata"),
    },
    "mysrv": {("mysrvs.myapp.idcos.com", "full")},
}
"""What each operator has to see."""

DEFAULT_CONCURRENCY = 8
ALL = [operator.name for operator in OPERATORS]


def needed_by(*names: str) -> set[Watch]:
    """What these operators have to see, together."""
    return set().union(*(WATCHES[name] for name in names))


@pytest.mark.parametrize("name", ALL)
async def test_an_operator_asks_for_what_it_has_to_see_and_no_more(name: str) -> None:
    asked = OperatorWorld(name).manager.cache.informers
    assert {(each.spec.resource, each.spec.projection) for each in asked} == WATCHES[name]


@pytest.mark.parametrize(
    ("flags", "running"),
    [
        (["--concurrency=foo=1"], ALL),
        (["--controllers=*,-foo"], [name for name in ALL if name != "foo"]),
        (["--controllers=foo,mysrv", "--concurrency=foo=3,mysrv=2"], ["foo", "mysrv"]),
    ],
    ids=["all", "all but foo", "foo and mysrv"],
)
def test_each_kind_and_projection_is_watched_once_for_all_who_run(
    crds: ControlPlane,
    fault_proxy: Callable[[Path], FaultProxy],
    run_manager: RunManager,
    flags: list[str],
    running: list[str],
) -> None:
    proxy = fault_proxy(crds.kubeconfig)
    manager = run_manager(proxy.kubeconfig, *flags).wait_ready()
    wanted = needed_by(*running)
    of_kind = collections.Counter(kind for kind, _ in wanted)

    # What the API server sees, now and since the manager started: nothing was watched twice, and left again.
    eventually(lambda: counted(proxy.open_watches()) == of_kind)
    assert counted(proxy.exchanges(Match(watch=True))) == of_kind
    assert cached(manager) == wanted
    limits = dict.fromkeys(running, DEFAULT_CONCURRENCY) | limits_in(flags)
    assert concurrency(manager) == limits


def counted(watches: list[Exchange]) -> dict[str, int]:
    """How many watches there are of each kind, in all namespaces; a narrower one has a name of its own."""
    return collections.Counter(kind_of(each) for each in watches)


def kind_of(watch: Exchange) -> str:
    match watch.path.strip("/").split("/"):
        case ["api", _, plural]:
            return plural
        case ["apis", group, _, plural]:
            return f"{plural}.{group}"
    return watch.path


def cached(manager: ManagerProcess) -> set[Watch]:
    """What the manager says it keeps."""
    found = manager.metrics().select("operator_manager_cache_objects")
    return {(each.labels["kind"], each.labels["projection"]) for each in found}


def concurrency(manager: ManagerProcess) -> dict[str, int]:
    """How many reconciles each controller may run at once."""
    found = manager.metrics().select("controller_runtime_max_concurrent_reconciles")
    return {each.labels["controller"]: int(each.value) for each in found}


def limits_in(flags: list[str]) -> dict[str, int]:
    """What `--concurrency` says."""
    values = [flag.removeprefix("--concurrency=") for flag in flags if flag.startswith("--concurrency=")]
    pairs = (pair.split("=") for value in values for pair in value.split(","))
    return {name: int(limit) for name, limit in pairs}
