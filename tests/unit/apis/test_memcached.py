from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from apis.cache.v1.memcached import Memcached, MemcachedSpec

STORED = {
    "apiVersion": "cache.example.com/v1",
    "kind": "Memcached",
    "metadata": {
        "name": "memcached-sample",
        "namespace": "default",
        "uid": "4a8d3c6e-1b5f-4a94-9df7-0f4eb21c8d2b",
        "resourceVersion": "12",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {"size": 0, "flavour": "newer"},
    "status": {
        "nodes": [],
        "replicas": 0,
        "readyReplicas": 0,
        "selector": "app=memcached",
        "observedGeneration": 3,
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "AsWanted",
                "message": "",
                "severity": "newer",
            }
        ],
    },
}


def test_an_object_is_written_as_it_was_read():
    assert Memcached.decode(json.dumps(STORED).encode()).to_wire() == STORED


def test_the_node_list_of_size_zero_is_empty_and_never_missing():
    assert Memcached(spec=MemcachedSpec(size=0)).to_wire()["status"]["nodes"] == []


def test_an_object_that_no_controller_has_seen_has_an_empty_status():
    memcached = Memcached.decode(b'{"metadata": {"name": "a"}, "spec": {"size": 3}}')
    assert memcached.status.nodes == []
    assert memcached.status.ready_replicas is None
    assert memcached.status.conditions == []


@pytest.mark.parametrize("spec", [{}, {"size": -1}, {"size": 2**31}, {"size": None}, {"size": 1.5}])
def test_a_wrong_size_is_refused(spec: dict[str, Any]):
    with pytest.raises(ValidationError):
        Memcached.decode(json.dumps({"spec": spec}).encode())
