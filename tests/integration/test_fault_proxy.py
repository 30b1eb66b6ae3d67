"""The harness itself: the proxy makes the faults that it promises, and nothing else."""

from __future__ import annotations

import dataclasses
import http.client
import json
import threading
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import pytest

from tests.support.api_access import ApiAccess, ApiFailure
from tests.support.eventually import consistently, eventually
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


class Watcher:
    """Reads one watch in a thread, as raw bytes, until it ends."""

    def __init__(self, proxy: FaultProxy, path: str, scratch: Path) -> None:
        self.received = b""
        self.end: str | None = None
        credentials = Credentials.read(proxy.kubeconfig)
        self._connection = http.client.HTTPSConnection(
            urlsplit(credentials.server).netloc, context=credentials.ssl_context(scratch), timeout=20.0
        )
        self._path = f"{path}?watch=true"
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def events(self) -> list[dict[str, Any]]:
        """The whole lines so far."""
        return [json.loads(line) for line in self.received.split(b"\n")[:-1]]

    def _read(self) -> None:
        try:
            self._connection.request("GET", self._path)
            answer = self._connection.getresponse()
            while chunk := answer.read1():
                self.received += chunk
            self.end = "ended"
        except (OSError, http.client.HTTPException) as error:
            self.end = type(error).__name__
        finally:
            self._connection.close()


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


def grow_impatient(client: ApiAccess) -> None:
    """The connection that it has is given up soon when nothing comes; one that it makes later is not."""
    client._local.connection.sock.settimeout(0.5)


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


def test_a_lost_answer_leaves_its_effect(
    proxy: FaultProxy, client: ApiAccess, control_plane: ControlPlane, path: str
) -> None:
    proxy.lose_answers(match=Match(method="POST"))
    with pytest.raises(OSError, match=BROKEN):
        client.create(path, config_map("a"))
    assert control_plane.api.find(f"{path}/a") is not None


def test_a_dropped_request_has_no_effect(
    proxy: FaultProxy, client: ApiAccess, control_plane: ControlPlane, path: str
) -> None:
    proxy.drop(match=Match(method="POST"))
    with pytest.raises(OSError, match=BROKEN):
        client.create(path, config_map("a"))
    assert control_plane.api.find(f"{path}/a") is None


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
    credentials = Credentials.read(proxy.kubeconfig)
    connection = http.client.HTTPSConnection(
        urlsplit(credentials.server).netloc, context=credentials.ssl_context(tmp_path), timeout=10.0
    )
    connection.connect()
    proxy.refuse()
    connection.request("GET", path)
    with pytest.raises(OSError, match=BROKEN):
        connection.getresponse()
    connection.close()
    assert proxy.count() == 0


def test_a_black_hole_swallows_until_healed(proxy: FaultProxy, client: ApiAccess, path: str) -> None:
    client.get(path)
    grow_impatient(client)
    proxy.black_hole()
    with pytest.raises(TimeoutError):
        client.get(path)
    proxy.heal()
    client.get(path)


def test_a_request_is_over_when_it_is_answered_or_given_up(
    proxy: FaultProxy, client: ApiAccess, path: str
) -> None:
    client.get(path)
    grow_impatient(client)
    proxy.black_hole()
    with pytest.raises(TimeoutError):
        client.get(path)
    answered, given_up = proxy.exchanges()
    assert answered.over is not None
    eventually(lambda: given_up.over is not None)
    assert (answered.status, given_up.status) == (200, None)


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
    with Watcher(proxy, path, tmp_path) as watcher:
        eventually(lambda: len(proxy.open_watches(CONFIG_MAPS)) == 1)
        assert proxy.cut() == 1
        eventually(lambda: watcher.end is not None)
    assert watcher.end != "ended"
    eventually(lambda: proxy.open_watches() == [])


def test_a_stalled_watch_stays_open_and_silent(
    proxy: FaultProxy, control_plane: ControlPlane, path: str, tmp_path: Path
) -> None:
    with Watcher(proxy, path, tmp_path) as stalled:
        eventually(lambda: stalled.events() != [] or len(proxy.open_watches()) == 1)
        assert proxy.stall_watches() == 1
        before = stalled.received
        with Watcher(proxy, path, tmp_path) as healthy:
            control_plane.api.create(path, config_map("late"))
            eventually(lambda: "late" in [event["object"]["metadata"]["name"] for event in healthy.events()])
            consistently(lambda: stalled.received == before and stalled.end is None, during=0.3)
            proxy.cut()


def test_an_expired_watch_hears_of_it_in_the_stream(proxy: FaultProxy, path: str, tmp_path: Path) -> None:
    with Watcher(proxy, path, tmp_path) as watcher:
        eventually(lambda: len(proxy.open_watches()) == 1)
        assert proxy.expire_watches(CONFIG_MAPS) == 1
        eventually(lambda: watcher.end == "ended")
    last = watcher.events()[-1]
    assert (last["type"], last["object"]["code"]) == ("ERROR", 410)
