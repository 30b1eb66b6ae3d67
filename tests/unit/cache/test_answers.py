from __future__ import annotations

from typing import Any

import pytest

from manager.cache.answers import deleted_uid, is_removed
from manager.kube.errors import ProtocolError
from tests.unit.cache.objects import encoded, pod, taken

DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("more", "removed"),
    [
        ({}, False),
        (DELETING, True),
        ({**DELETING, "deletionGracePeriodSeconds": 0}, True),
        ({**DELETING, "deletionGracePeriodSeconds": 30}, False),
        ({**DELETING, "finalizers": []}, True),
        ({**DELETING, "finalizers": ["example.com/wait"]}, False),
        ({"finalizers": ["example.com/wait"]}, False),
        ({**DELETING, "spec": {"finalizers": ["kubernetes"]}}, False),
        ({**DELETING, "spec": {"finalizers": []}}, True),
        ({**DELETING, "spec": {"finalizers": None}}, True),
        ({**DELETING, "spec": None}, True),
        ({**DELETING, "spec": "a word"}, True),
        ({**DELETING, "spec": [1]}, True),
    ],
)
def test_a_write_removes_an_object_that_nothing_keeps_any_longer(more: dict[str, Any], removed: bool):
    value = pod("a", 1, **more)
    assert is_removed(encoded(value), taken(value)[1]) is removed


def test_a_status_means_that_the_object_is_gone():
    assert deleted_uid(b'{"kind":"Status","status":"Success","details":{"name":"a","uid":"u"}}') == "u"
    assert deleted_uid(b'{"kind":"Status","status":"Success"}') == ""


def test_an_object_means_that_it_is_still_there():
    assert deleted_uid(encoded(pod("a", 1))) is None


def test_garbage_is_refused():
    with pytest.raises(ProtocolError, match="not the answer to a delete"):
        deleted_uid(b"<html>")
