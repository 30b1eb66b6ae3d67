"""What of Secrets is in the manager's memory, and what does not stay there."""

from __future__ import annotations

import base64
import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.eventually import eventually
from tests.support.process_memory import WIPED, words_in_memory
from tests.support.wordpresses import CHILDREN, WordpressWalk

if TYPE_CHECKING:
    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def encoded(word: str) -> str:
    return base64.b64encode(word.encode()).decode()


def secret(namespace: str, name: str, *, annotations: dict[str, str] | None = None, **content: object) -> str:
    metadata = {"name": name, "namespace": namespace, "annotations": annotations or {}}
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **content})


@pytest.mark.parametrize("wiped", [True, False], ids=["freed memory overwritten", "as usual"])
def test_no_value_of_a_secret_stays_in_memory(
    crds: ControlPlane, storage: None, namespace: str, run_manager: RunManager, wiped: bool
) -> None:
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
    # One that is used, and read for that from the server.
    crds.kubectl("create", "-f", "-", stdin=secret(namespace, "given", stringData={"root": "word-of-root"}))
    walk.create("site", sqlRootPasswordSecretRef={"name": "given", "key": "root"})
    eventually(lambda: not walk.missing("site", CHILDREN))
    generated = walk.passwords("site")["password"]

    # The server does not send them, so that they cannot be there, not even for a moment.
    never = ["word-of-created-data", "word-of-created-string"]
    # They pass through: read, or created, or as kubectl's copy of what was applied.
    passing = ["word-of-applied-data", "word-of-applied-string", "word-of-root", generated]
    gone = [*never, *passing] if wiped else never
    words = [*gone, *map(encoded, gone), *(["word-of-large-annotation"] if wiped else [])]

    def search() -> None:
        found = words_in_memory(manager.process.pid, [*words, "word-of-small-annotation"])
        assert found == {"word-of-small-annotation"}  # which shows that the search finds what there is

    eventually(search)
    assert not walk.errors()
