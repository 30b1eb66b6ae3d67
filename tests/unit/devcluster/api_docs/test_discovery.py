"""Discovery of built-in and custom kinds, as a real 1.36 server answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from devcluster.api.discovery import AGGREGATED, Discovery
from devcluster.http_call import ApiRequest, ApiResponse
from devcluster.kinds.registry import Registry
from tests.recordings import versions

VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
CHANGE = ["get", "patch", "update"]


@pytest.fixture
def discovery(registry: Registry) -> Discovery:
    return Discovery(registry)


def ask(discovery: Discovery, path: str, accept: str = "", **headers: str) -> ApiResponse:
    headers = {"accept": accept, "host": "127.0.0.1:6443"} | headers
    return asyncio.run(discovery.answer(ApiRequest(method="GET", path=path, headers=headers)))


def read(discovery: Discovery, path: str, accept: str = "") -> Any:
    answer = ask(discovery, path, accept)
    assert answer.status == 200
    return json.loads(answer.body)


def test_core_discovery_names_the_kinds_and_verbs_of_subresources(discovery: Discovery):
    document = read(discovery, "/api/v1")
    assert "apiVersion" not in document
    entries = {entry["name"]: entry for entry in document["resources"]}
    eviction = entries["pods/eviction"]
    assert [eviction[name] for name in ("group", "version", "kind")] == ["policy", "v1", "Eviction"]
    assert {name: (each["kind"], each["verbs"]) for name, each in entries.items() if "/" in name} == {
        "namespaces/finalize": ("Namespace", ["update"]),
        "namespaces/status": ("Namespace", CHANGE),
        "pods/eviction": ("Eviction", ["create"]),
        "pods/log": ("Pod", ["get"]),
        "pods/proxy": ("PodProxyOptions", ["create", "delete", "get", "patch", "update"]),
        "pods/status": ("Pod", CHANGE),
    }


def test_aggregated_discovery_describes_a_custom_kind_with_its_subresources(discovery: Discovery):
    document = read(discovery, "/apis", f"{AGGREGATED},application/json")
    apps, types = document["items"]
    assert apps["metadata"] == {"name": "apps"}
    deployment = apps["versions"][0]["resources"][0]
    assert deployment["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
    kind = {"group": "types.example.com", "version": "v1", "kind": "Widget"}
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert types["versions"][0]["resources"][1] == {
        "resource": "widgets",
        "responseKind": kind,
        "scope": "Namespaced",
        "singularResource": "widget",
        "verbs": VERBS,
        "shortNames": ["wd"],
        "categories": ["all", "ty"],
        "subresources": [
            {"subresource": "status", "responseKind": kind, "verbs": CHANGE},
            {"subresource": "scale", "responseKind": scale, "verbs": CHANGE},
        ],
    }
    assert read(discovery, "/api", AGGREGATED)["items"][0]["metadata"] == {}


def test_aggregated_discovery_answers_304_until_a_kind_is_removed(discovery: Discovery, registry: Registry):
    first = ask(discovery, "/apis", AGGREGATED)
    tag = first.headers["ETag"]
    again = ask(discovery, "/apis", AGGREGATED, **{"if-none-match": tag})
    assert (again.status, again.body) == (304, b"")
    registry.remove(registry.find("types.example.com", "v1", "gadgets"))
    changed = ask(discovery, "/apis", AGGREGATED, **{"if-none-match": tag})
    assert changed.status == 200
    assert b"gadgets" not in changed.body


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", AGGREGATED),
        (f"{AGGREGATED.replace('v=v2', 'v=v2beta1')},application/json", "application/json"),
    ],
    ids=["parameters in another order", "older version"],
)
def test_discovery_chooses_the_document_by_media_type_parameters(
    discovery: Discovery, accept: str, content_type: str
):
    assert ask(discovery, "/apis", accept).content_type == content_type


def test_root_document_lists_api_paths_in_alphabetical_order(discovery: Discovery):
    paths = read(discovery, "/")["paths"]
    assert {"/api", "/api/v1", "/apis/apps", "/apis/types.example.com/v1beta1", "/openapi/v3"} <= set(paths)
    assert paths == sorted(paths)


def test_version_document_reports_the_kubernetes_version_of_the_recorded_real_server(discovery: Discovery):
    version, recorded = read(discovery, "/version"), versions()["kubernetes"]
    assert version["gitVersion"] == f"{recorded}+devcluster"
    assert recorded.startswith(f"v{version['major']}.{version['minor']}.")
