"""Installations by `make venv` and `make tools`; scripts replace pip and uv."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import venv
from pathlib import Path

from tests.support import ROOT

PARTS = (
    "Packages of the programs",
    "Packages that build and install them",
    "Packages of the demo",
    "Packages of the bill of materials",
    "Packages of development",
    "Packages of the documentation site",
)
# Tells what pip is configured to do, and writes down what it is asked for.
STANDS_IN = """
import json, os, pathlib, sys
folder = pathlib.Path({folder!r})
if sys.argv[-2:] == ["config", "list"]:
    print((folder / "pip.conf").read_text())
    sys.exit()
with (folder / "calls").open("a") as calls:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=calls)
"""


def test_uv_uses_the_indexes_and_certificates_of_pip(tmp_path: Path):
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts/fill-venv", tmp_path / "scripts")
    pins = [f"\n# {part}.\none-of-{number}==1\n" for number, part in enumerate(PARTS)]
    (tmp_path / "constraints.txt").write_text("".join(pins))
    venv.create(tmp_path / ".venv", symlinks=True)
    python, uv = tmp_path / ".venv/bin/python", tmp_path / ".venv/bin/uv"
    (packages,) = tmp_path.glob(".venv/lib/python*/site-packages")
    (packages / "pip").mkdir()
    (packages / "pip/__main__.py").write_text(STANDS_IN.format(folder=str(tmp_path)))
    uv.write_text(f"#!{python}\n" + STANDS_IN.format(folder=str(tmp_path)))
    uv.chmod(0o755)
    (tmp_path / "pip.conf").write_text(
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
    subprocess.run([python, script, "demo"], check=True, env={"PATH": os.environ["PATH"], **own})
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert len(calls) > 1
    for arguments, environ in calls[1:]:
        assert {name: value for name, value in environ.items() if name.startswith(("UV_", "SSL_"))} == {
            "UV_DEFAULT_INDEX": "https://uvs.own.test",
            "UV_INDEX": "https://a.test https://b.test",
            "SSL_CERT_FILE": "/it's here.pem",
        }
        assert environ["ALL_PROXY"] == "http://proxy.test"
        assert [each for each in arguments if re.search("index|links", each.partition("=")[0])] == [
            f"--find-links={tmp_path}",
            "--find-links=https://wheels.test",
            "--no-index",
            "--index-strategy=unsafe-best-match",
        ]
