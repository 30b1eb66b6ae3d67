from __future__ import annotations

import asyncio
import os
import signal
import threading
from datetime import timedelta
from pathlib import Path

import msgspec
import orjson
import pytest

from manager.kube.credentials import (
    FOREVER,
    Credentials,
    ExecCredentials,
    ExecSpec,
    Obtained,
    TokenFile,
)
from manager.kube.errors import ConfigError
from manager.util import clock


class Numbered(Credentials):
    """Source of the tokens "1", "2" and so on; the source can fail or be slow."""

    def __init__(self, *, lifetime: float = 60.0, validity: float = FOREVER) -> None:
        super().__init__()
        self.lifetime = lifetime
        self.validity = validity
        self.failing = False
        self.delay = 0.0
        self.calls = 0

    async def obtain(self) -> Obtained:
        self.calls += 1
        await asyncio.sleep(self.delay)
        if self.failing:
            raise ConfigError("out of order")
        return Obtained(str(self.calls), self.lifetime, self.validity)

    async def header(self, *, rejected: str | None = None) -> str | None:
        return (await self.current(rejected=rejected)).header


@pytest.fixture
async def numbered() -> Numbered:
    return Numbered()


@pytest.mark.virtual_time
class TestCredentialsRenewal:
    async def test_credentials_are_reused_for_their_lifetime_and_during_a_renewal(self, numbered: Numbered):
        assert [await numbered.header() for _ in range(3)] == ["1", "1", "1"]
        await asyncio.sleep(59)
        assert await numbered.header() == "1"
        await asyncio.sleep(1)
        numbered.delay = 5
        renewal = asyncio.create_task(numbered.header())
        await asyncio.sleep(1)
        assert await numbered.header() == "1"
        assert await renewal == "2"
        assert await numbered.header() == "2"

    async def test_expired_credentials_are_not_used_and_concurrent_callers_share_a_renewal(self):
        numbered = Numbered(lifetime=50, validity=60)
        await numbered.header()
        await asyncio.sleep(61)
        numbered.delay = 5
        assert await asyncio.gather(numbered.header(), numbered.header()) == ["2", "2"]

    async def test_failed_credential_renewal_raises_only_when_no_earlier_credentials_exist(
        self, numbered: Numbered
    ):
        numbered.failing = True
        with pytest.raises(ConfigError, match="out of order"):
            await numbered.header()
        numbered.failing = False
        assert await numbered.header() == "2"
        await asyncio.sleep(60)
        numbered.failing = True
        assert [await numbered.header() for _ in range(3)] == ["2", "2", "2"]
        assert numbered.calls == 3
        numbered.failing = False
        await asyncio.sleep(3)
        assert await numbered.header() == "4"

    async def test_concurrent_requests_with_rejected_credentials_share_one_renewal(self, numbered: Numbered):
        await numbered.header()
        numbered.delay = 1
        assert await asyncio.gather(*(numbered.header(rejected="1") for _ in range(5))) == ["2"] * 5
        await asyncio.sleep(10)
        assert await numbered.header(rejected="1") == "2"
        assert numbered.calls == 2

    async def test_credentials_are_renewed_at_most_once_in_3_seconds_when_every_request_is_rejected(
        self, numbered: Numbered
    ):
        header = await numbered.header()
        for _ in range(100):
            header = await numbered.header(rejected=header)
            await asyncio.sleep(0.3)
        assert numbered.calls == 11

    async def test_failed_credential_renewal_is_repeated_3_seconds_after_its_end(self, numbered: Numbered):
        await numbered.header()
        await asyncio.sleep(60)
        numbered.failing, numbered.delay = True, 5
        assert [await numbered.header() for _ in range(2)] == ["1", "1"]
        assert numbered.calls == 2
        await asyncio.sleep(3)
        await numbered.header()
        assert numbered.calls == 3

    async def test_rejected_credentials_are_renewed_3_seconds_after_the_end_of_the_last_renewal(
        self, numbered: Numbered
    ):
        await numbered.header()
        numbered.delay = 5
        header = await numbered.header(rejected="1")
        await asyncio.sleep(2)
        assert await numbered.header(rejected=header) == "2"
        await asyncio.sleep(1)
        assert await numbered.header(rejected=header) == "3"

    async def test_credentials_are_reused_for_their_lifetime_after_a_slow_renewal(self, numbered: Numbered):
        numbered.delay = 100
        assert [await numbered.header() for _ in range(2)] == ["1", "1"]

    async def test_credential_renewal_serves_a_waiting_caller_when_the_first_caller_is_cancelled(
        self, numbered: Numbered
    ):
        numbered.delay = 1
        first, second = (asyncio.create_task(numbered.header()) for _ in range(2))
        await asyncio.sleep(0.5)
        first.cancel()
        assert await second == "2"


@pytest.mark.virtual_time
async def test_token_file_is_read_again_when_the_server_rejects_the_token(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("old")
    credentials = TokenFile(file, label="token")
    await credentials.current()
    seen = []
    for second in range(0, 10, 2):
        if second == 8:
            file.write_text("new")
        seen.append((await credentials.current(rejected="Bearer old")).header)
        await asyncio.sleep(2)
    assert seen == ["Bearer old"] * 4 + ["Bearer new"]


async def test_token_file_is_read_when_all_threads_of_asyncio_to_thread_are_busy(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("secret")
    over = threading.Event()
    busy = [asyncio.create_task(asyncio.to_thread(over.wait)) for _ in range(50)]
    try:
        async with asyncio.timeout(10):
            assert (await TokenFile(file, label="token").current()).header == "Bearer secret"
    finally:
        over.set()
        await asyncio.gather(*busy)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), (b" \n", "is empty"), (b"\xff", "one line"), (b"a\nb", "one line")],
)
async def test_token_file_error_names_the_file_that_is_missing_empty_or_not_one_line(
    tmp_path: Path, content: bytes | None, message: str
):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        await TokenFile(file, label="tokenFile").current()
    assert str(caught.value).startswith(f"tokenFile: {file}")


V1 = "client.authentication.k8s.io/v1"


def printing(status: object, *, api_version: str = V1, kind: str = "ExecCredential") -> str:
    credential = orjson.dumps({"apiVersion": api_version, "kind": kind, "status": status}).decode()
    return f"cat <<'END'\n{credential}\nEND"


class Plugin:
    """Shell script that serves as an exec credential plugin."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "plugin"

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def configured(
        self, script: str, *, environ: dict[str, str] | None = None, **spec: object
    ) -> ExecCredentials:
        self.path.write_text(f"#!/bin/sh\n{script}\n")
        self.path.chmod(0o700)
        return ExecCredentials(
            spec=msgspec.convert(
                {"command": "./plugin", "apiVersion": V1, "interactiveMode": "IfAvailable", **spec}, ExecSpec
            ),
            label="user 'me': exec",
            folder=self.folder,
            cluster={"server": "https://x"},
            environ=dict(os.environ) if environ is None else environ,
        )

    async def run(self, script: str, **spec: object) -> Obtained:
        return await self.configured(script, **spec).obtain()


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_exec_token_without_an_expiry_is_valid_forever(plugin: Plugin):
    obtained = await plugin.run(printing({"token": "secret"}))
    assert obtained == Obtained("Bearer secret", FOREVER, FOREVER, None)


@pytest.mark.parametrize(("lives", "margin"), [(3600, 60), (100, 20)], ids=["a minute", "a fifth"])
async def test_exec_token_is_renewed_before_it_expires(plugin: Plugin, lives: int, margin: int):
    expiry = (clock.now() + timedelta(seconds=lives)).isoformat()
    obtained = await plugin.run(printing({"token": "secret", "expirationTimestamp": expiry}))
    assert lives - 100 < obtained.validity <= lives
    assert obtained.validity - obtained.lifetime == pytest.approx(min(margin, obtained.validity / 5))


async def test_exec_program_can_return_a_client_certificate_instead_of_a_token(plugin: Plugin):
    obtained = await plugin.run(printing({"clientCertificateData": "CRT", "clientKeyData": "KEY"}))
    assert obtained.header is None
    assert obtained.certificate is not None
    assert [pem.read() for pem in obtained.certificate] == [b"CRT", b"KEY"]


async def test_exec_program_gets_arguments_environment_and_exec_info(plugin: Plugin):
    script = 'echo "$1 $A $HOME $KUBERNETES_EXEC_INFO" > seen\n'
    await plugin.run(
        f'cd "$(dirname "$0")"\n{script}{printing({"token": "x"})}',
        args=["one"],
        env=[{"name": "A", "value": "two"}],
        environ={"HOME": "/home", "PATH": os.environ["PATH"]},
        interactiveMode="Never",
    )
    one, two, home, info = plugin.read("seen").split()
    assert (one, two, home) == ("one", "two", "/home")
    assert orjson.loads(info) == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}


async def test_exec_command_is_searched_in_the_path_variable_only_when_it_contains_no_folder(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
):
    environ = {"PATH": f"{plugin.folder}:{os.environ['PATH']}"}
    obtained = await plugin.run(printing({"token": "x"}), command="plugin", environ=environ)
    assert obtained.header == "Bearer x"
    monkeypatch.chdir(plugin.folder)
    configured = plugin.configured(printing({"token": "y"}))
    configured.folder = Path()
    assert (await configured.obtain()).header == "Bearer y"


@pytest.mark.parametrize(
    ("script", "message", "spec"),
    [
        ("echo no session >&2; exit 3", "ended with exit code 3: no session", {}),
        ("echo", "prints no ExecCredential: Input data was truncated", {}),
        (printing({"token": "x"}, api_version="v9"), "has to print .*, and prints ExecCredential of v9", {}),
        (printing({"token": "x"}, kind="a\nb" * 1000), r"has to print .*, and prints a ba b.{,500}$", {}),
        (printing({"token": "a\nb"}), "the token must be one line", {}),
        (printing({}), "gives neither a token nor a client certificate with its key", {}),
        (printing({"token": "x", "expirationTimestamp": "2050-01-01T00:00:00"}), "prints no ExecCred", {}),
        ("cat /dev/zero", "prints more than 1000000 bytes", {}),
        ("head -c 9000000 /dev/zero >&2; echo no session >&2; exit 3", "exit code 3: .*no session$", {}),
        (
            "",
            r"cannot be started: No such file .*\(get it from x\)",
            {"command": "no-such-program", "installHint": "get it\nfrom x"},
        ),
        (printing({"token": "x"}), "standard input is not a terminal", {"interactiveMode": "Always"}),
    ],
)
async def test_failed_credential_program_raises_a_one_line_error(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch, script: str, message: str, spec: dict[str, str]
):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ConfigError, match=message) as caught:
        await plugin.run(script, **spec)
    assert str(caught.value).startswith("user 'me': exec: ")
    assert "\n" not in str(caught.value)


async def test_exec_credentials_kill_the_program_and_raise_config_error_after_the_timeout(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
):
    programs = list[asyncio.SubprocessTransport]()
    monkeypatch.setattr("manager.kube.credentials._Output.connection_made", lambda _, it: programs.append(it))
    monkeypatch.setattr("manager.kube.credentials.TIMEOUT", 0.01)
    with pytest.raises(ConfigError, match=r"not finished after 0\.01 s"):
        await plugin.run("exec sleep 60")
    assert [program.get_returncode() for program in programs] == [-signal.SIGKILL]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_credential_program_leaves_no_open_files_when_its_child_hangs(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("manager.kube.credentials.TIMEOUT", 0.5)
    os.mkfifo(plugin.folder / "other")

    async def tried() -> int:
        with pytest.raises(ConfigError, match="not finished"):
            await plugin.run('cat "$(dirname "$0")/other" & echo')
        await asyncio.sleep(0)
        return open_files()

    before = await tried()
    assert await tried() == before
    # A write to the pipe ends the child process that reads it.
    plugin.folder.joinpath("other").write_text("")


async def test_credential_program_is_killed_when_the_obtain_call_is_cancelled(plugin: Plugin):
    os.mkfifo(plugin.folder / "started")
    configured = plugin.configured('echo $$ > "$(dirname "$0")/started"; exec sleep 60')
    task = asyncio.create_task(configured.obtain())
    process = int(await asyncio.to_thread(plugin.read, "started"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
