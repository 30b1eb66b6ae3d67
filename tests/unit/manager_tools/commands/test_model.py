"""`model`: generates code from a file to stdout or to a file, and reports errors in one line."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from manager.server.server import serve
from manager.util.address import BindAddress
from tests.support import ROOT
from tests.support.kubeconfig import Credentials
from tests.unit.cli.conftest import Command, Outcome

VENDOR = ROOT / "tests/unit/manager_tools/codegen/installation.yaml"
FOOS = ROOT / "config/crd/bases/tutorial.my.domain_foos.yaml"


def test_model_prints_code_to_stdout_and_notes_to_stderr(command: Command, monkeypatch: pytest.MonkeyPatch):
    done = command("model", f"--from={VENDOR}")
    assert done.code == 0
    assert '"""Installation of ops.vendor.io/v1, as installation.yaml has it."""\n' in done.out
    assert done.err.splitlines()[0] == (
        "operator-manager: model: of the versions, this is v1; there is also v1alpha1 (--version)"
    )
    assert "v1alpha1" in command("model", "--from", str(VENDOR), "--version=v1alpha1").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FOOS.read_bytes())))
    first, *_ = command("model", "--from=-").out.splitlines()
    assert first == '"""Foo of tutorial.my.domain/v1, as stdin has it."""'


def test_model_command_creates_file_and_packages_but_overwrites_no_file(command: Command, tmp_path: Path):
    apis = tmp_path / "apis"
    apis.mkdir()
    apis.joinpath("__init__.py").touch()
    inside, outside = apis / "tutorial" / "v1" / "foo.py", tmp_path / "vendor" / "foo.py"
    for output in (inside, outside):
        assert command("model", f"--from={FOOS}", "-o", str(output)).out == ""
        written = output.read_text()
        assert "class Foo(Resource" in written
    made = {path.parent for path in tmp_path.rglob("__init__.py")}
    assert made == {apis, inside.parent.parent, inside.parent}
    again = command("model", f"--from={VENDOR}", f"--output={outside}")
    assert again.refusal() == f"model: {outside} exists already, and is not overwritten"
    assert outside.read_text() == written


def test_model_command_needs_the_kind_flag_when_file_has_several_kinds(command: Command, tmp_path: Path):
    both = tmp_path / "both.yaml"
    both.write_text(VENDOR.read_text() + FOOS.read_text())
    assert "class Foo(" in command("model", f"--from={both}", "--kind=foo").out
    names = "installations.ops.vendor.io, foos.tutorial.my.domain"
    for flags, said in (
        ((), f"it defines {names}; which one is meant? (--kind)"),
        (("--kind=Bar",), f"it defines no Bar, but {names}"),
    ):
        assert command("model", f"--from={both}", *flags).refusal() == f"model: {both}: {said}"


async def modelled(command: Command, folder: Path, answer: Handler) -> Outcome:
    """Run `model --from=A` against a server that answers every request with `answer`."""
    async with serve("answers", BindAddress("127.0.0.1", 0), [web.get("/{path:.*}", answer)]) as server:
        config = Credentials(server=f"http://{server.address}").write(folder / "config")
        return await asyncio.to_thread(command, "model", "--from=A", f"--kubeconfig={config}")


async def test_model_command_refuses_an_api_resource_whose_kind_contains_python_code(
    command: Command, tmp_path: Path
):
    kind = "X(object):\n    pass\nimport os\nclass A"
    group = {"name": "b.c", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
    answers = {
        "/apis": {"groups": [group]},
        "/version": {"gitVersion": "v1.36.0"},
        "/api/v1": {"resources": []},
        "/apis/b.c/v1": {"resources": [{"name": "as", "namespaced": True, "kind": kind}]},
    }

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(answers.get(request.path, {}))

    done = await modelled(command, tmp_path, answer)
    assert (done.code, "import os" in done.out) == (1, False)
    assert done.err.startswith("operator-manager: model: not a list of API resources: Expected `str`")


async def test_model_command_escapes_control_characters_of_a_server_message(command: Command, tmp_path: Path):
    async def answer(_: web.Request) -> web.StreamResponse:
        said = {"kind": "Status", "reason": "Unauthorized", "message": "no\x1b]0;owned\x07\nanother line"}
        return web.json_response(said, status=401)

    done = await modelled(command, tmp_path, answer)
    assert done.err.endswith(r"no\x1b]0;owned\x07 another line" + "\n")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "Missing option '--from'."),
        (("--from=/nowhere.yaml",), "/nowhere.yaml: No such file or directory"),
        ((f"--from={sys.executable}",), f"{sys.executable}: it is not text in UTF-8"),
        ((f"--from={FOOS}", "--version=v9"), f"{FOOS}: foos.tutorial.my.domain has no version v9: it has v1"),
        ((f"--from={FOOS}", "-o/dev/null/where.py"), "/dev/null/where.py: Not a directory"),
        (("--from=Pod", "--kind=Foo"), "Pod: --kind is for a file; here the kind is named already"),
    ],
)
def test_model_error_names_the_invalid_argument_or_file(command: Command, flags: tuple[str, ...], said: str):
    assert command("model", *flags).refusal() == f"model: {said}"
