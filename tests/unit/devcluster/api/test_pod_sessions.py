"""Sessions of exec, attach and port-forward with an aiohttp client: the data of each channel."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest

from devcluster import DevCluster
from devcluster.api.pod_sessions import Process, Session
from tests.support.running_pods import create_running_pod

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
EXEC = "exec?command=run&command=it&stdout=true&stderr=true"


class Person:
    """Client of the cluster as the administrator."""

    def __init__(self, cluster: DevCluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self.session = session
        self.headers = {"Authorization": f"Bearer {cluster.token}"}
        self.context = ssl.create_default_context(cadata=cluster.ca_pem.decode())

    def url(self, path: str, pod: str = "web") -> str:
        return f"{self.cluster.server_url}/api/v1/namespaces/default/pods/{pod}/{path}"

    @asynccontextmanager
    async def opened(
        self, path: str, *protocols: str, pod: str = "web"
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        async with self.session.ws_connect(
            self.url(path, pod), headers=self.headers, protocols=protocols or (V5, V4), ssl=self.context
        ) as socket:
            yield socket

    async def refusal(self, path: str, pod: str = "web", **headers: str) -> tuple[int, str]:
        asked = self.session.get(self.url(path, pod), headers={**self.headers, **headers}, ssl=self.context)
        async with asked as response:
            return response.status, (await response.json())["message"]


async def everything(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """Return all bytes by channel number, when the server has closed the socket."""
    found: dict[int, bytes] = {}
    async with asyncio.timeout(10):
        async for message in socket:
            found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


@pytest.fixture
async def person() -> AsyncIterator[Person]:
    async with DevCluster(controllers=False) as cluster, aiohttp.ClientSession() as session:
        await create_running_pod(cluster)
        yield Person(cluster, session)


@pytest.mark.parametrize("protocol", [V5, V4])
async def test_exec_calls_the_exec_handler_and_reports_its_exit_code(person: Person, protocol: str):
    seen: list[Process] = []

    async def run(process: Process) -> int:
        seen.append(process)
        await process.write(b"out")
        await process.write(b"err", stderr=True)
        return 3

    person.cluster.sessions.exec = run
    async with person.opened(EXEC, protocol) as socket:
        assert socket.protocol == protocol
        found = await everything(socket)
    assert (found[1], found[2]) == (b"out", b"err")
    status = orjson.loads(found[3])
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert (seen[0].command, seen[0].container) == (["run", "it"], "main")
    assert seen[0].pod["metadata"]["name"] == "web"


async def test_exec_forwards_stdin_until_end_of_input(person: Person):
    async def cat(process: Process) -> int:
        while data := await process.read():
            await process.write(data)
        return 0

    person.cluster.sessions.exec = cat
    async with person.opened(f"{EXEC}&stdin=true", V5) as socket:
        await socket.send_bytes(b"\x00one ")
        await socket.send_bytes(b"\x00two")
        await socket.send_bytes(b"\xff\x00")
        assert (await everything(socket))[1] == b"one two"


async def test_exec_without_a_handler_reports_a_missing_program(person: Person):
    async with person.opened(EXEC) as socket:
        status = orjson.loads((await everything(socket))[3])
    assert status["code"] == 500
    assert 'exec: "run": executable file not found in $PATH' in status["message"]


@pytest.mark.parametrize(("code", "told"), [(None, None), ("7", "7"), ("x", "1")])
async def test_exec_without_a_handler_prints_the_exec_annotation_if_the_pod_has_one(
    person: Person, code: str | None, told: str | None
):
    annotations = {"devcluster.local/exec": "PONG", "devcluster.local/exec-code": code}
    await person.cluster.client.patch("pods", "default", "web", {"metadata": {"annotations": annotations}})
    async with person.opened(EXEC) as socket:
        found = await everything(socket)
    assert found[1] == b"PONG"
    status = orjson.loads(found[3])
    if told is None:
        assert status == {"metadata": {}, "status": "Success"}
    else:
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": told}]


async def test_exec_handler_is_cancelled_when_the_client_disconnects(person: Person):
    ended = asyncio.Event()

    async def run(_: Process) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return 0

    person.cluster.sessions.exec = run
    async with person.opened(EXEC):
        pass
    await asyncio.wait_for(ended.wait(), 10)


async def test_pod_attach_forwards_stdin_and_reports_success_for_any_exit_code(person: Person):
    seen: list[Process] = []

    async def run(process: Process) -> int:
        seen.append(process)
        await process.write(await process.read())
        return 7

    person.cluster.sessions.attach = run
    async with person.opened("attach?stdin=true&stdout=true") as socket:
        await socket.send_bytes(b"\x00hello")
        found = await everything(socket)
    assert found[1] == b"hello"
    assert orjson.loads(found[3])["status"] == "Success"  # a kubelet does not report the exit code of attach
    assert seen[0].command == ()


async def test_port_forward_sends_the_port_number_to_the_client_and_forwards_bytes_both_ways(person: Person):
    async def shout(pod: dict[str, Any], port: int, session: Session) -> None:
        name = pod["metadata"]["name"]
        await session.write(b"%s %d %s" % (name.encode(), port, (await session.read()).upper()))

    person.cluster.sessions.port = shout
    async with person.opened("portforward?ports=8080", V4) as socket:
        await socket.send_bytes(b"\x00hello")
        assert await everything(socket) == {0: b"\x90\x1fweb 8080 HELLO", 1: b"\x90\x1f"}


async def test_port_forward_without_a_handler_reports_a_refused_connection(person: Person):
    async with person.opened("portforward?ports=8080", V4) as socket:
        assert b"connect: connection refused" in (await everything(socket))[1]


@pytest.mark.parametrize(
    ("path", "pod", "headers", "code", "says"),
    [
        (EXEC, "web", {}, 400, "Upgrade request required"),
        (EXEC, "other", {}, 404, 'pods "other" not found'),
        (f"{EXEC}&container=no", "web", {}, 400, "container no is not valid for pod web"),
        ("exec?stdout=true", "web", {}, 400, "you must specify at least 1 command"),
        ("exec?command=a", "web", {}, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        (EXEC, "pending", {}, 400, "pod pending does not have a host assigned"),
        (EXEC, "web", {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}, 400, "no SPDY"),
    ],
)
async def test_exec_returns_an_error_status_when_the_request_is_invalid(
    person: Person, path: str, pod: str, headers: dict[str, str], code: int, says: str
):
    await create_running_pod(person.cluster, "pending", node="")
    status, message = await person.refusal(path, pod, **headers)
    assert status == code
    assert says in message


@pytest.mark.parametrize(("verbs", "code"), [(["get"], 403), (["get", "create"], 400), (["create"], 403)])
async def test_exec_by_websocket_needs_get_and_create_rights(person: Person, verbs: list[str], code: int):
    rbac = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}]
    role = {"apiGroup": rbac, "kind": "Role", "name": "one"}
    subject = {"apiGroup": rbac, "kind": "User", "name": "bob"}
    binding = {"metadata": {"name": "one"}, "roleRef": role, "subjects": [subject]}
    create = person.cluster.client.create
    await create(f"roles.{rbac}", "default", {"metadata": {"name": "one"}, "rules": rules})
    await create(f"rolebindings.{rbac}", "default", binding)
    token = person.cluster.add_user("bob")
    status, message = await person.refusal(EXEC, Authorization=f"Bearer {token}")
    assert status == code
    if verbs == ["get"]:
        assert message == 'pods "web" is forbidden: '  # the message of the real server
    if verbs == ["create"]:
        assert message.startswith('pods "web" is forbidden: User "bob" cannot get resource "pods/exec"')


async def test_exec_reports_a_container_that_is_not_running(person: Person):
    pod = await create_running_pod(person.cluster, "ended")
    pod["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 0}}
    await person.cluster.client.patch(
        "pods", "default", "ended", {"status": pod["status"]}, subresource="status"
    )
    async with person.opened(EXEC, V5, pod="ended") as socket:
        status = orjson.loads((await everything(socket))[3])
    assert 'container not found ("main")' in status["message"]
