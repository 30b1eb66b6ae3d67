"""Installations by `make venv` and `make tools`; scripts replace pip and uv."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

PARTS = (
    "Packages of the programs",
    "Packages that build and install them",
    "Packages of the demo",
    "Packages of the bill of materials",
    "Packages of development",
    "Packages of the documentation site",
)
# Writes down what it is asked for.
STANDS_IN = """
import json, os, pathlib, sys
folder = pathlib.Path({folder!r})
if sys.argv[-2:] == ["config", "list"]:
    print((folder / "pip.conf").read_text())
    sys.exit()
given = sys.stdin.read() if any("requirement" in argument for argument in sys.argv) else ""
call = {{
    "program": {name!r},
    "arguments": sys.argv[1:],
    "names": [line.split("==")[0] for line in given.splitlines() if "==" in line],
    "editable": [argument for argument in sys.argv if argument.startswith("--editable=")],
    "environ": dict(os.environ),
}}
with (folder / "calls").open("a") as calls:
    print(json.dumps(call), file=calls)
"""


class Checkout:
    """A project with one package in each part of its pins, and an environment with such installers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/fill-venv", folder / "scripts")
        pins = [f"\n# {part}.\none-of-{number}==1\n" for number, part in enumerate(PARTS)]
        (folder / "constraints.txt").write_text("".join(pins))
        self.pip_is_configured("")
        venv.create(folder / ".venv", symlinks=True)
        (self.packages,) = folder.glob(".venv/lib/python*/site-packages")
        (self.packages / "pip").mkdir()
        (self.packages / "pip/__main__.py").write_text(STANDS_IN.format(folder=str(folder), name="pip"))
        self.uv = folder / ".venv/bin/uv"
        self.uv.write_text(f"#!{folder}/.venv/bin/python\n" + STANDS_IN.format(folder=str(folder), name="uv"))
        self.uv.chmod(0o755)

    def pip_is_configured(self, listed: str) -> None:
        """Set the output of `pip config list`."""
        (self.folder / "pip.conf").write_text(listed)

    def calls(self, what: str, **environ: str) -> list[dict[str, Any]]:
        """Run the script; return the calls of pip and uv."""
        command = [self.folder / ".venv/bin/python", self.folder / "scripts/fill-venv", what]
        subprocess.run(command, check=True, env={"PATH": os.environ["PATH"], **environ})
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def checkout(tmp_path: Path):
    return Checkout(tmp_path)


def test_uv_uses_the_indexes_and_certificates_of_pip(checkout: Checkout, tmp_path: Path):
    checkout.pip_is_configured(
        "global.index-url='https://mirror.test/simple'\n"
        "global.proxy='http://never.test'\n"
        "install.proxy='http://proxy.test'\n"
        f"global.find-links='{tmp_path}\\n/not/there\\nhttps://wheels.test'\n"
        'global.cert="/it\'s here.pem"\n'
        "freeze.trusted-host='never.test'\n"
        ":env:.extra-index-url='https://a.test https://b.test'\n"
        ":env:.no-index='true'\n"
    )
    own = {"UV_DEFAULT_INDEX": "https://uvs.own.test", "SSL_CERT_FILE": "/others.pem"}
    for call in checkout.calls("demo", **own)[1:]:
        environ = {name: value for name, value in call["environ"].items() if name.startswith(("UV_", "SSL_"))}
        assert environ == {
            "UV_DEFAULT_INDEX": "https://uvs.own.test",
            "UV_INDEX": "https://a.test https://b.test",
            "SSL_CERT_FILE": "/it's here.pem",
        }
        assert call["environ"]["ALL_PROXY"] == "http://proxy.test"
        assert [each for each in call["arguments"] if re.search("index|links", each.partition("=")[0])] == [
            f"--find-links={tmp_path}",
            "--find-links=https://wheels.test",
            "--no-index",
            "--index-strategy=unsafe-best-match",
        ]
