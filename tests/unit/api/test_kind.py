from __future__ import annotations

import pytest

from manager.api import GroupVersionKind, ObjectKey


@pytest.mark.parametrize(
    ("api_version", "kind", "gvk", "text"),
    [
        ("v1", "Pod", GroupVersionKind("", "v1", "Pod"), "Pod.v1"),
        ("apps/v1", "Deployment", GroupVersionKind("apps", "v1", "Deployment"), "Deployment.v1.apps"),
        (
            "cache.example.com/v1",
            "Memcached",
            GroupVersionKind("cache.example.com", "v1", "Memcached"),
            "Memcached.v1.cache.example.com",
        ),
    ],
)
def test_a_kind_reads_and_writes_as_kubernetes_has_it(
    api_version: str, kind: str, gvk: GroupVersionKind, text: str
):
    assert GroupVersionKind.from_api_version(api_version, kind) == gvk
    assert gvk.api_version == api_version
    assert str(gvk) == text


def test_kinds_are_values():
    assert len({GroupVersionKind("", "v1", "Pod"), GroupVersionKind("", "v1", "Pod")}) == 1


def test_a_key_reads_as_namespace_and_name():
    assert str(ObjectKey("n", "a")) == "n/a"
    assert str(ObjectKey("", "a")) == "a"
