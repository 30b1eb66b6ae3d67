"""The Rust library kube-rs."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

from benchmarks.peers.building import Peer, Ready, build, need, run
from benchmarks.program import by_contract

__all__ = ["PEERS"]

NAME = "kube-rs"
SOURCES = Path(__file__).parent
BINARY = "kube-rs-peer"


def _make() -> Ready:
    need("cargo")
    rustc = run([need("rustc"), "--version"], folder=SOURCES).strip()
    folder = build(NAME, SOURCES, _compile, toolchain=rustc)
    manifest = tomllib.loads((SOURCES / "Cargo.toml").read_text())
    library = manifest["dependencies"]["kube"]["version"].removeprefix("=")
    return Ready(
        program=by_contract(NAME, str(folder / "target" / "release" / BINARY)),
        version=f"kube-rs {library}, {' '.join(rustc.split()[:2])}",
    )


def _compile(folder: Path) -> None:
    # The build uses a copy, because cargo writes a Cargo.lock next to the manifest.
    copy = folder / "sources"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    run([need("cargo"), "build", "--release", "--quiet", "--target-dir", folder / "target"], folder=copy)


PEERS = (
    Peer(
        name=NAME,
        make=_make,
        about="the Rust library: reflectors for all three kinds, server-side apply; kube-lease-manager for"
        " leader election, which it leaves to others",
    ),
)
