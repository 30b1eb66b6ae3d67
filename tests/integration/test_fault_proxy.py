"""The harness itself: the proxy makes the faults that it promises, and nothing else."""

from __future__ import annotations

import dataclasses
import http.client
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.support.api_access import ApiAccess, ApiFailure
from tests.support.eventually import eventually
from tests.support.fault_proxy import Match
from tests.support.kubeconfig import Credentials
from tests.support.ports import PortBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.control_plane import ControlPlane
    from tests.support.fault_proxy import FaultProxy

# What a client sees of a reset differs between versions of OpenSSL.
BROKEN = r"reset|closed|EOF"
CONFIG_MAPS = Match(path="/configmaps")


def connection_to(proxy: FaultProxy, scratch: Path) -> http.client.HTTPSConnection:
    credentials = Credentials.read(proxy.kubeconfig)
    return http.client.HTTPSConnection(
        urlsplit(credentials.server).netloc, context=credentials.ssl_context(scratch), timeout=20.0
    )


@pytest.fixture
def proxy(control_plane: ControlPlane, fault_proxy: Callable[[Path], FaultProxy]) -> FaultProxy:
    return fault_proxy(control_plane.kubeconfig)


@pytest.fixture
def client(proxy: FaultProxy, tmp_path: Path) -> Iterator[ApiAccess]:
    access = ApiAccess(Credentials.read(proxy.kubeconfig), scratch=tmp_path)
    yield access
    access.close()


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"k": "v" * 500}}


def test_requests_pass_unchanged_and_are_counted(proxy: FaultProxy, client: ApiAccess, path: str) -> None:
    client.create(path, config_map("a"))
    assert client.get(f"{path}/a")["data"] == config_map("a")["data"]
    assert client.get(path, fieldSelector="metadata.name=b")["items"] == []
    assert client.find(f"{path}/nobody") is None
    seen = [(exchange.method, exchange.path, exchange.status) for exchange in proxy.exchanges(CONFIG_MAPS)]
    assert seen == [
        ("POST", path, 201),
        ("GET", f"{path}/a", 200),
        ("GET", path, 200),
        ("GET", f"{path}/nobody", 404),
    ]
    assert proxy.count(Match(method="POST")) == 1


def test_a_user_with_a_client_certificate_stays_the_same_user(
    control_plane: ControlPlane, fault_proxy: Callable[[Path], FaultProxy]
) -> None:
    proxy = fault_proxy(control_plane.user_kubeconfig("carla"))
    refused = control_plane.kubectl("get", "pods", kubeconfig=proxy.kubeconfig, check=False)
    assert 'User "carla" cannot list resource "pods"' in refused.stderr


def test_answers_are_made_up_as_often_as_asked(proxy: FaultProxy, client: ApiAccess, path: str) -> None:
    proxy.answer(429, headers={"Retry-After": "1"}, body=b"slowly", match=Match(method="POST"), times=2)
    for _ in range(2):
        assert client.get(path)["items"] is not None
        with pytest.raises(ApiFailure, match="429: slowly"):
            client.create(path, config_map("a"))
    client.create(path, config_map("a"))


def test_a_fault_without_a_number_lasts_until_healed(proxy: FaultProxy, client: ApiAccess, path: str) -> None:
    proxy.answer(500, times=None)
    for _ in range(3):
        with pytest.raises(ApiFailure, match="500"):
            client.get(path)
    proxy.heal()
    client.get(path)


def test_refused_connections_work_again_afterwards(proxy: FaultProxy, client: ApiAccess, path: str) -> None:
    client.get(path)
    proxy.refuse()
    with pytest.raises(OSError, match=r"refused"):
        client.get(path)
    proxy.accept()
    client.get(path)


def test_a_connection_that_came_up_before_is_refused_too(
    proxy: FaultProxy, path: str, tmp_path: Path
) -> None:
    connection = connection_to(proxy, tmp_path)
    connection.connect()
    proxy.refuse()
    connection.request("GET", path)
    with pytest.raises(OSError, match=BROKEN):
        connection.getresponse()
    connection.close()
    assert proxy.count() == 0


def test_a_server_that_is_away_shows_as_a_broken_connection(
    control_plane: ControlPlane, fault_proxy: Callable[[Path], FaultProxy], tmp_path: Path
) -> None:
    with PortBlock(1) as ports:
        nobody = dataclasses.replace(control_plane.credentials, server=f"https://127.0.0.1:{ports[0]}")
        proxy = fault_proxy(nobody.write(tmp_path / "away" / "kubeconfig"))
        access = ApiAccess(Credentials.read(proxy.kubeconfig), scratch=tmp_path)
        with pytest.raises(OSError, match=BROKEN):
            access.get("/version")
        access.close()


def test_watches_are_seen_while_open_and_cut_at_once(proxy: FaultProxy, path: str, tmp_path: Path) -> None:
    watching = connection_to(proxy, tmp_path)
    watching.request("GET", f"{path}?watch=true")
    eventually(lambda: len(proxy.open_watches(CONFIG_MAPS)) == 1)
    assert proxy.cut() == 1
    with pytest.raises((OSError, http.client.HTTPException)):
        watching.getresponse().read()
    watching.close()
    eventually(lambda: proxy.open_watches() == [])


def test_an_ended_watch_ends_in_good_order(proxy: FaultProxy, path: str, tmp_path: Path) -> None:
    watching = connection_to(proxy, tmp_path)
    watching.request("GET", f"{path}?watch=true")
    eventually(lambda: len(proxy.open_watches()) == 1)
    proxy.end_watches(CONFIG_MAPS)
    watching.getresponse().read()
    watching.close()
