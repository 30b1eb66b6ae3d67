"""Search for values of Secrets in the manager's memory."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.conftest import RunManager
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.wordpresses import WordpressWalk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
WIPED = {
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0",
}
"""Variables that make glibc overwrite freed memory, so that a search finds only memory in use."""


def words_in_memory(pid: int, words: Iterable[str]) -> set[str]:
    """Return the words that the memory of a process contains."""
    wanted = {word: word.encode() for word in words}
    return {word for block in _blocks(pid) for word, text in wanted.items() if text in block}


def _blocks(pid: int) -> Iterator[bytes]:
    folder = Path("/proc") / str(pid)
    maps = (folder / "maps").read_text().splitlines()
    with (folder / "mem").open("rb", buffering=0) as memory:
        for line in maps:
            span, rights, *_, name = line.split()
            if not rights.startswith("r") or name in {"[vvar]", "[vvar_vclock]", "[vsyscall]"}:
                continue
            first, end = (int(address, 16) for address in span.split("-"))
            try:
                memory.seek(first)
                # One read returns at most 2 GB, and may return less than requested.
                yield memory.read(end - first)
            except OSError:
                continue  # unmapped meanwhile, or without memory


def encoded(word: str) -> str:
    return base64.b64encode(word.encode()).decode()


def secret(namespace: str, name: str, *, annotations: dict[str, str] | None = None, **content: object) -> str:
    metadata = {"name": name, "namespace": namespace, "annotations": annotations or {}}
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **content})


@pytest.mark.parametrize("wiped", [True, False], ids=["freed memory overwritten", "as usual"])
def test_manager_keeps_no_secret_value_in_memory(
    crds: ControlPlane, storage: None, namespace: str, run_manager: RunManager, wiped: bool
):
    manager = run_manager(
        crds.kubeconfig,
        f"--namespaces={namespace}",
        "--controllers=wordpress",
        "--log-level=debug",
        environ=WIPED if wiped else None,
    ).wait_ready()
    walk = WordpressWalk(crds, namespace, manager)
    created = secret(
        namespace,
        "created",
        data={"a": encoded("word-of-created-data"), "key-of-created-data": ""},
        stringData={"b": "word-of-created-string"},
    )
    applied = secret(
        namespace,
        "applied",
        data={"a": encoded("word-of-applied-data")},
        stringData={"b": "word-of-applied-string"},
        annotations={"large": "word-of-large-annotation" + "." * 4096, "small": "word-of-small-annotation"},
    )
    crds.kubectl("create", "-f", "-", stdin=created)
    crds.kubectl("apply", "-f", "-", stdin=applied)
    # The operator reads this Secret from the server, because the Wordpress refers to it.
    crds.kubectl("create", "-f", "-", stdin=secret(namespace, "given", stringData={"root": "word-of-root"}))
    walk.create("site", sqlRootPasswordSecretRef={"name": "given", "key": "root"})
    eventually(lambda: not walk.missing("site"))
    generated = walk.passwords("site")["password"]

    # The server does not send these values, so they are never in memory.
    never = ["word-of-created-data", "word-of-created-string"]
    # The manager receives or sends these values, but does not keep them.
    passing = ["word-of-applied-data", "word-of-applied-string", "word-of-root", generated]
    gone = [*never, *passing] if wiped else never
    words = [*gone, *map(encoded, gone), *(["word-of-large-annotation"] if wiped else [])]

    def search() -> None:
        found = words_in_memory(manager.process.pid, [*words, "word-of-small-annotation"])
        assert found == {"word-of-small-annotation"}  # so the search works

    eventually(search)
    assert not walk.errors()
