"""What `make release` hands out."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from manager.version import VERSION
from release.artifacts import context
from release.cli import main
from tests.support.dockerfile import Dockerfile
from tests.support.tools import tool

if TYPE_CHECKING:
    from pathlib import Path

HANDED_OUT = {
    *("SHA256SUMS", "install.yaml", "sbom.cdx.json", f"operator-manager-{VERSION}.tgz"),
    *(f"operator-manager-bundle-{VERSION}.tar.gz", f"operator-manager-images-{VERSION}.tar.gz"),
    *(
        f"operator_manager-{VERSION}-py3-none-any.whl",
        f"operator_manager_operators-{VERSION}-py3-none-any.whl",
    ),
}


def made(folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    (folder / "sbom.cdx.json").write_text("{}")
    assert (
        main(["everything", str(folder), "--image=local.test/om:v1", "--petstore-image=local.test/ps"]) == 0
    )
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.whole
def test_two_runs_give_the_same_bytes_whatever_the_clock_and_the_rights_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tool("kubectl")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = made(tmp_path / "first")
    assert first.keys() == HANDED_OUT
    strict = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=tmp_path / "first",
        capture_output=True,
        check=False,
    )
    assert strict.returncode == 0
    before = os.umask(0o077)
    try:
        assert made(tmp_path / "second") == first
    finally:
        os.umask(before)

    assert b"local.test/om:v1" in first["install.yaml"]
    archive = tmp_path / "first" / f"operator-manager-{VERSION}.tgz"
    command = [tool("helm"), "template", "pets", archive, "--kube-version=1.36"]
    rendered = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "local.test/om:v1" in rendered.stdout, rendered.stderr
    with zipfile.ZipFile(
        tmp_path / "first" / f"operator_manager_operators-{VERSION}-py3-none-any.whl"
    ) as wheel:
        assert "controllers/main.py" in wheel.namelist()


def test_the_context_holds_what_the_dockerfile_copies_and_runs():
    _, packed = context()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        modes = {entry.name: entry.mode for entry in archive}
    stages = Dockerfile.read().stages.values()
    copies = [copy for stage in stages for copy in stage.of("COPY") if "from" not in copy.flags]
    copied = [name for copy in copies for name in copy.arguments[:-1]]
    for name in ["Dockerfile", ".dockerignore", *copied]:
        assert [path for path in modes if path == name or path.startswith(f"{name}/")], name
    assert modes["scripts/restarting"] == 0o755
    assert not [path for path in modes if path.startswith(("tests/", "docs/"))]


@pytest.mark.parametrize(
    ("missing", "said"),
    [("sbom.cdx.json", "`make sbom` writes it"), ("heading", f"has no heading for version {VERSION}")],
)
def test_what_is_missing_is_said_and_nothing_is_written(
    missing: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    if missing == "heading":
        changelog = tmp_path / "CHANGELOG.md"
        changelog.write_text("# Changelog\n\n## Unreleased\n")
        monkeypatch.setattr("release.cli._CHANGELOG", changelog)
    dist = tmp_path / "dist"
    dist.mkdir()
    assert main(["everything", str(dist)]) == 1
    assert said in capsys.readouterr().err
    assert list(dist.iterdir()) == []


def test_outside_of_a_repository_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    tool("kubectl")
    tool("git")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    (tmp_path / "sbom.cdx.json").touch()
    assert main(["everything", str(tmp_path)]) == 1
    assert "a release is made of a commit" in capsys.readouterr().err
