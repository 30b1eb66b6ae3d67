"""The Go library controller-runtime: one program, measured with several settings."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers.building import LeftOutError, Peer, Ready, build, need, run
from benchmarks.program import by_contract

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PEERS"]

SOURCES = Path(__file__).parent
NAME = "controller-runtime"


def _make(name: str, *flags: str, concurrency: int | None = None) -> Callable[[], Ready]:
    def make() -> Ready:
        go = need("go")
        toolchain = run([go, "env", "GOVERSION", "GOOS", "GOARCH"], folder=SOURCES).split()
        folder = build(NAME, SOURCES, functools.partial(_compile, go), toolchain=" ".join(toolchain))
        version = f"{NAME} {_library_version()}, {toolchain[0]}"
        program = by_contract(name, str(folder / NAME), *flags, concurrency=concurrency)
        return Ready(program=program, version=version)

    return make


def _compile(go: str, folder: Path) -> None:
    # The flags of kubebuilder's Dockerfile; -trimpath keeps the path of the sources out of the program.
    command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", str(folder / NAME), "."]
    run(command, folder=SOURCES, environ={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"})


def _library_version() -> str:
    modules = (SOURCES / "go.mod").read_text()
    found = re.search(r"^\s+sigs\.k8s\.io/controller-runtime v(\S+)$", modules, re.MULTILINE)
    if found is None:
        raise LeftOutError("its go.mod does not name sigs.k8s.io/controller-runtime")
    return found[1]


PEERS: tuple[Peer, ...] = (
    Peer(
        name=NAME,
        make=_make(NAME),
        about="kubebuilder's sample, on its Go library with the defaults, but as many workers as all have: it"
        " returns after the create, and writes the status when the Deployment's event has come back",
    ),
    Peer(
        name=f"{NAME}-ryw",
        make=_make(f"{NAME}-ryw", "--read-your-writes"),
        about="the sample with Client.Cache.EnableReadYourWritesConsistency, which is experimental, on",
    ),
    Peer(
        name=f"{NAME}-onepass",
        make=_make(f"{NAME}-onepass", "--one-pass"),
        about="as most operators in the wild are written: it creates, and writes the status in the same pass",
    ),
    Peer(
        name=f"{NAME}-1",
        make=_make(f"{NAME}-1", concurrency=1),
        about="the sample as it comes out of the box: MaxConcurrentReconciles is 1, where ours has 8",
    ),
    Peer(
        name=f"{NAME}-stripped",
        make=_make(f"{NAME}-stripped", "--strip-managed-fields"),
        about="the sample with cache.TransformStripManagedFields, which is not the default",
    ),
)
