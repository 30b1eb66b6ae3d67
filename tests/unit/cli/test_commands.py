"""Commands of the program and of installed packages, shell completion, and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import yaml

from manager.cli import main
from manager.cli.commands import GROUP
from manager.util.version import KUBERNETES_VERSIONS, VERSION
from tests.support.fork_server import run, start
from tests.support.kinds import GadgetOperator
from tests.unit.cli.conftest import OPERATORS, Command, Install
from tests.unit.manager_tools.commands.test_generating import AheadOperator, UnboundedOperator

COMMANDS = (
    *("run", "crds", "generate", "init", "create", "model", "simulate"),
    *("explain", "plan", "console", "migrate-storage", "version"),
)


def test_help_lists_the_commands_and_shows_the_usage_of_each(command: Command):
    for argv in ("--help", "-h", "help"):
        outcome = command(argv)
        assert (outcome.code, outcome.err) == (0, "")
        assert all(f"\n  {name} " in outcome.out for name in COMMANDS)
    for name in COMMANDS:
        for argv in ((name, "--help"), (name, "-h"), ("help", name)):
            outcome = command(*argv)
            assert outcome.code == 0
            assert outcome.out.startswith(f"Usage: operator-manager {name} ")
    outcome = command()
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage: operator-manager [OPTIONS] COMMAND" in outcome.err


@pytest.mark.parametrize(
    ("argv", "code", "expected"),
    [
        (("start",), 2, "No such command 'start'."),
        (("crd",), 2, "No such command 'crd'. Did you mean 'crds'?"),
        (("--verbose",), 2, "No such option '--verbose'. Did you mean '--version'?"),
        (("run", "--config", "a\nb\x1b[2J"), 2, r"run: a\nb\x1b[2J: cannot read the settings file"),
        (("run",), 1, "run: no cluster: give --kubeconfig"),
        (
            ("run", "--log-format=json", "--kubeconfig=/no\nsuch"),
            1,
            r"run: --kubeconfig /no\nsuch: no such file",
        ),
        (("crds", "f\no"), 2, r"crds: Got unexpected extra argument (f\no)"),
        (("create", "api", "--kind=A"), 2, "create api: Missing option '--group'."),
    ],
)
def test_command_line_error_is_one_printable_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], code: int, expected: str
):
    monkeypatch.setenv("HOME", "/none")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    message = command(*argv).refusal(code)
    assert message.startswith(expected)
    assert message.isprintable()


@pytest.mark.parametrize("argv", ["version", "--version"])
def test_version_command_prints_manager_python_and_kubernetes_versions(command: Command, argv: str):
    outcome = command(argv)
    assert outcome.code == 0
    python = ".".join(map(str, sys.version_info[:3]))
    assert outcome.out.splitlines() == [
        f"operator-manager {VERSION}",
        f"Python {python}",
        f"Kubernetes {', '.join(KUBERNETES_VERSIONS)}",
    ]


@pytest.mark.parametrize("name", ["crds", "generate", "simulate"])
def test_command_reports_an_invalid_model_in_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    (tmp_path / "config").mkdir()
    monkeypatch.chdir(tmp_path)
    outcome = command(name, operators=[UnboundedOperator])
    assert outcome.refusal(1) == (
        f"{name}: Unbounded.spec.anything: any value at all is accepted only with preserve_unknown()"
    )
    assert command(name, operators=[AheadOperator]).refusal(1) == (
        f"{name}: Ahead.spec.name: the server's regular expressions have no '(?!' "
        "(invalid or unsupported Perl syntax)"
    )


def test_crds_command_prints_crds_whose_conversion_uses_the_webhook_service(command: Command):
    outcome = command("crds", operators=[GadgetOperator])
    assert (outcome.code, outcome.err) == (0, "")
    [crd] = yaml.safe_load_all(outcome.out)
    service = crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert service["name"] == "operator-manager-webhook-service"


@contextmanager
def handled(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Set a signal handler for the block; assert that it is still set at the end."""
    original = signal.signal(number, handler)
    try:
        yield
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, original)


@pytest.mark.parametrize(
    ("before", "meanwhile"), [(signal.default_int_handler, signal.SIG_DFL), (signal.SIG_IGN, signal.SIG_IGN)]
)
def test_command_sets_sigint_to_its_default_action_while_it_runs_unless_sigint_is_ignored(
    command: Command, monkeypatch: pytest.MonkeyPatch, before: Any, meanwhile: Any
):
    seen: list[Any] = []
    look = click.Command("version", callback=lambda: seen.append(signal.getsignal(signal.SIGINT)))
    monkeypatch.setattr("manager.cli.commands.version", look)
    with handled(signal.SIGINT, before):
        command("version")
    assert seen == [meanwhile]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_main_exits_on_a_signal_when_it_is_process_1_of_a_container(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
):
    """The kernel ignores a signal to process 1 unless the process has a handler for the signal."""
    ended: list[int] = []
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(os, "_exit", ended.append)
    interrupted = click.Command("version", callback=lambda: signal.raise_signal(number))
    monkeypatch.setattr("manager.cli.commands.version", interrupted)
    # A shell makes background jobs ignore SIGINT.
    with handled(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL):
        assert main(["version"], (), name="test", version="1") == 0
    assert ended == [128 + number]


MODULE = "hello_commands"
SOURCE = """
import click

from manager.cli.commands import LazyCommand, pass_invocation

COMMANDS = (
    LazyCommand("hello", "greet the operators", "hello_commands:hello"),
    LazyCommand("greet", "greet", "hello_commands:greet"),
    LazyCommand("version", "print another version", "hello_commands:hello"),
)
NUMBERS = (1, 2)

@click.group
def greet():
    pass

@greet.command("all")
def everybody():
    pass

@click.command
@click.argument("word")
@pass_invocation
def hello(invocation, word):
    print("hello", invocation.program.name, word, *(each.name for each in invocation.operators()))
    return 3
"""


@pytest.fixture
def install(install_package: Install) -> Install:
    def put(value: str) -> None:
        install_package(MODULE, SOURCE, f"hello = {value}", group=GROUP)

    return put


def test_installed_command_is_called_with_the_operators_of_the_manager(command: Command, install: Install):
    install(f"{MODULE}:COMMANDS")
    said = command("hello", "again", operators=OPERATORS)
    assert (said.code, said.err) == (3, "")
    assert said.out == "hello operator-manager again memcached foo pet\n"
    assert command("hello").refusal() == "hello: Missing argument 'WORD'."


def test_installed_commands_appear_in_help_and_never_replace_a_built_in_command(
    command: Command, install: Install, monkeypatch: pytest.MonkeyPatch
):
    install(f"{MODULE}:COMMANDS")
    listed = command("--help").out
    assert "\n  hello            greet the operators\n" in listed
    assert listed.count("\n  version ") == 1
    assert "another version" not in listed
    assert command("helo").refusal() == "No such command 'helo'. Did you mean 'hello'?"
    monkeypatch.setenv("_OPERATOR_MANAGER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "operator-manager greet ")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert command().out == "plain,all\n"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module:X", "no_such_module:X, cannot be loaded: ModuleNotFoundError: No module named"),
        (f"{MODULE}:hello", f"{MODULE}:hello, are not a sequence of manager.cli.commands.LazyCommand"),
        (f"{MODULE}:NUMBERS", f"{MODULE}:NUMBERS, are not a sequence of manager.cli.commands.LazyCommand"),
    ],
)
def test_built_in_commands_run_when_an_installed_command_package_is_broken(
    command: Command, install: Install, value: str, said: str
):
    install(value)
    for argument in ("--help", "no-such-command"):
        told = command(argument).refusal(1)
        assert told.startswith("the commands of hello-operators 1.2, ")
        assert said in told
    assert [command(*argv).code for argv in (["version"], ["run", "--help"])] == [0, 0]


GENEROUS = 30.0
ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
BIN = Path(sys.executable).parent
PROGRAMS = ("operator-manager", "petstore", "devcluster")


def interpreted(code: str) -> subprocess.CompletedProcess[str]:
    """Run the code in a new Python process."""
    return run(sys.executable, "-c", code, environ=ENVIRON, timeout=GENEROUS)


def test_import_of_the_run_command_loads_no_large_package_and_reads_no_source_file():
    done = interpreted(
        "import sys, linecache; import controllers.main;"
        "import manager.cli.run;"
        "print('imported', *sorted(sys.modules)); print('read', *linecache.cache)"
    )
    assert done.returncode == 0, done.stderr
    *_, (_, *names), read = (line.split() for line in done.stdout.splitlines())
    imported, packages = set(names), {name.partition(".")[0] for name in names}
    assert {"controllers.cache.memcached", "controllers.petstore.pet"} <= imported
    assert "petstore.client" not in imported
    assert "structlog" in packages
    assert {name for name in packages if name.startswith("manager")} == {"manager", "manager_kinds"}
    assert not {"grpc", "google", "cryptography", "rich", "devcluster"} & packages
    assert not {"aiohttp", "jinja2", "kubernetes_asyncio", "opentelemetry", "yaml"} & packages
    assert read == ["read"]


def test_import_of_console_pages_does_not_import_manager_shards():
    done = interpreted("import sys, manager_console.pages; print('manager_shards' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("argv", ["version", "crds"])
def test_command_succeeds_when_its_output_pipe_is_closed(argv: str, tmp_path: Path):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody, (tmp_path / "errors").open("wb") as errors:
        ended = start([BIN / "operator-manager", argv], os.environ, nobody, errors)
        assert ended.wait(GENEROUS) == 0
    assert (tmp_path / "errors").read_text() == ""


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("argv", "closed", "code"),
    [("--help", ">&-", 0), ("--version", "<&- >&- 2>&-", 0), ("no-such-command", "2>&-", 2)],
)
def test_program_keeps_its_exit_code_when_stdin_stdout_or_stderr_is_closed(
    program: str, argv: str, closed: str, code: int
):
    words = ("/bin/sh", "-c", f'exec "$@" {closed}', "sh", BIN / program, argv)
    ended = run(*words, environ=os.environ, timeout=GENEROUS)
    assert (ended.returncode, ended.stderr) == (code, "")


STUCK = """
import asyncio, time
from manager.telemetry.logs import configured
from manager.telemetry.watchdog import Watchdog

async def main():
    time.sleep(60)

with configured() as lines, Watchdog(stop_within=0.1, before_exit=lines.flush) as watchdog:
    watchdog.stopping()
    asyncio.run(main())
"""


def test_stuck_process_exits_even_if_its_log_pipe_is_full():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as full:
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
        ended = start([sys.executable, "-c", STUCK], ENVIRON, full)
        assert ended.wait(GENEROUS) == 1


@pytest.mark.parametrize("argument", ["version", "--version", "--help"])
def test_version_and_help_import_no_operator(argument: str):
    code = (
        f"import sys; sys.argv = ['operator-manager', {argument!r}]\n"
        "from controllers.program import main\n"
        "assert main() == 0\n"
        "heavy = {'controllers.main', 'manager.operator', 'manager.kube', 'pydantic', 'aiohttp', 'grpc'}\n"
        "assert not heavy & sys.modules.keys()"
    )
    ran = interpreted(code)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("program", "words", "offered"),
    [
        ("operator-manager", ["run", "--leader-elect-l"], ["plain,--leader-elect-lease-duration"]),
        ("operator-manager", ["create", "api", "--owns", "Con"], ["plain,ConfigMap"]),
        ("operator-manager", ["create", "webhook", "--kind", "P"], ["plain,Pet"]),
        ("operator-manager", ["run", "--controllers", "=", "me"], ["plain,memcached"]),
        ("operator-manager", ["run", "--log-format", "="], ["plain,auto", "plain,json", "plain,console"]),
        ("operator-manager", ["run", "--config", "=", "x"], ["file,x"]),
        ("operator-manager", ["run", "--leader-elect", "--shar"], ["plain,--shards"]),
        ("petstore", ["add", "Rex", "--type", "d"], ["plain,dog"]),
        ("devcluster", ["up", "--feature-gates", "="], ["plain,ShardedListAndWatch=true"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_program_completes_commands_flags_and_flag_values_for_bash(
    program: str, words: list[str], offered: list[str]
):
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    words = [program, *words]
    asked = {variable: "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = run(BIN / program, environ=os.environ | asked, timeout=GENEROUS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == offered


def test_completion_prints_nothing_when_the_operators_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("_PROGRAM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "program run --")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert main([], [SimpleNamespace(name="lost")], name="program", version="1") == 1  # type: ignore[list-item]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("program", PROGRAMS)
def test_completion_script_completes_a_command_in_bash(program: str, tmp_path: Path):
    script = tmp_path / "script"
    for shell in ("zsh", "fish", "bash"):
        done = run(BIN / program, "completion", shell, environ=os.environ, timeout=GENEROUS)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"_{program.replace('-', '_').upper()}_COMPLETE={shell}_complete" in done.stdout
        script.write_text(done.stdout)
    function = f"_{program.replace('-', '_')}_completion"
    asked = f"COMP_WORDS=({program} comp); COMP_CWORD=1; {function} {program}; echo ${{COMPREPLY[@]}}"
    path = f"{BIN}:{os.environ['PATH']}"
    ended = run(
        "bash", "-c", f"source {script}; {asked}", environ=os.environ | {"PATH": path}, timeout=GENEROUS
    )
    assert (ended.stdout, ended.stderr) == ("completion\n", "")
