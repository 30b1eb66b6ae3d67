"""exec, attach, port-forward and logs by our client, with running containers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from kubernetes_asyncio.client import CoreV1Api

from manager.api import ObjectKey
from manager.client import Client, connect
from manager.kube.errors import BadRequest, ConnectionLost, DeadlineExceeded, NotFound, ServerError
from manager_kubernetes_asyncio.pod_streams import PodStreams
from tests.e2e.cluster import CLIENT, NAMESPACE, apply, kubectl, say
from tests.e2e.conftest import client_pod

pytestmark = [pytest.mark.usefixtures("deployed"), pytest.mark.filterwarnings("default::DeprecationWarning")]

POD = ObjectKey(NAMESPACE, CLIENT)
ECHO = ObjectKey(NAMESPACE, "echo")
"""Pod that prints its stdin, and answers on a port."""

SERVER = """
import socketserver, sys, threading

class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data.upper())

threading.Thread(target=socketserver.ThreadingTCPServer(("", 7777), Echo).serve_forever, daemon=True).start()
print("listening", flush=True)
for line in sys.stdin:
    print("read", line, end="", flush=True)
"""


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connect("e2e") as client:
        yield client


@pytest.fixture
async def streams(client: Client) -> PodStreams:
    return client.pod_streams


@pytest.fixture(scope="module")
def echo(deployed: None) -> None:
    pod = client_pod()
    (container,) = pod["spec"]["containers"]
    container |= {"command": ["python", "-c", SERVER], "stdin": True}
    pod["metadata"] = {"name": ECHO.name}
    apply(pod)
    kubectl("wait", "--for=condition=Ready", f"pod/{ECHO.name}", "--timeout=60s")


async def test_exec_sends_stdin_reads_output_and_returns_the_exit_code(streams: PodStreams):
    script = "import sys; print(sys.stdin.read().upper(), end=''); print('e', file=sys.stderr); sys.exit(3)"
    stdin = b"hello " * 200_000
    result = await streams.exec(POD, ["python", "-c", script], stdin=stdin, limit=2_000_000)
    assert result.exit_code == 3
    assert result.stdout == stdin.upper()
    assert result.stderr == b"e\n"
    assert (await streams.exec(POD, ["true"])).exit_code == 0
    say(f"exec: {len(stdin)} bytes in and out, exit code 3")


async def test_exec_error_says_why_the_command_cannot_run(streams: PodStreams):
    with pytest.raises(ServerError, match="no-such-program"):
        await streams.exec(POD, ["no-such-program"])
    with pytest.raises(BadRequest, match="container no is not valid"):
        await streams.exec(POD, ["true"], container="no")
    with pytest.raises(NotFound):
        await streams.exec(ObjectKey(NAMESPACE, "no-such-pod"), ["true"])
    with pytest.raises(DeadlineExceeded, match="has not ended within 1 s"):
        await streams.exec(POD, ["sleep", "5"], timeout=1)


@pytest.mark.usefixtures("echo")
async def test_attach_exchanges_text_with_the_process_and_logs_contain_its_output(streams: PodStreams):
    async with streams.attach(ECHO, stdin=True) as attached:
        await attached.write(b"hello\n")
        printed = b""
        while b"read hello\n" not in printed:
            printed += (await anext(attached)).data
    async with aclosing(streams.logs(ECHO, follow=True, timestamps=False)) as lines:
        assert [await anext(lines), await anext(lines)] == ["listening", "read hello"]


@pytest.mark.usefixtures("echo")
async def test_port_forward_transfers_bytes_in_both_directions(streams: PodStreams):
    sent = b"hello" * 20_000
    async with streams.port_forward(ECHO, 7777) as connection:
        await connection.write(sent)
        received = b""
        while len(received) < len(sent):
            received += await connection.read()
    assert received == sent.upper()
    async with streams.port_forward(ECHO, 7778) as connection:
        with pytest.raises(ConnectionLost, match="refused"):
            await connection.read()


async def test_core_v1_api_of_kubernetes_asyncio_runs_a_command_in_a_pod(client: Client):
    core = CoreV1Api(client.kubernetes_client())
    said = await core.connect_get_namespaced_pod_exec(
        CLIENT, NAMESPACE, command=["echo", "a b"], stdout=True, stderr=True
    )
    assert said == "a b\n"
