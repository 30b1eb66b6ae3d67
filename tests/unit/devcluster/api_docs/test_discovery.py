"""Discovery; the expected documents are parts of what a real 1.36 server answers for the same resources."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from devcluster.api.discovery import AGGREGATED, Discovery
from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest, ApiResponse
from devcluster.kinds.registry import Registry
from tests.recordings import versions

ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
CUSTOM = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
CHANGE = ["get", "patch", "update"]


@pytest.fixture
def discovery(registry: Registry) -> Discovery:
    return Discovery(registry)


def ask(
    discovery: Discovery, path: str, accept: str = "", method: str = "GET", **headers: str
) -> ApiResponse:
    headers = {"accept": accept, "host": "127.0.0.1:6443"} | headers
    answer = asyncio.run(discovery.answer(ApiRequest(method=method, path=path, headers=headers)))
    assert answer is not None
    return answer


def read(discovery: Discovery, path: str, accept: str = "") -> Any:
    answer = ask(discovery, path, accept)
    assert answer.status == 200
    return json.loads(answer.body)


def test_core_discovery_names_the_kinds_of_subresources(discovery: Discovery):
    document = read(discovery, "/api/v1")
    assert "apiVersion" not in document
    entries = {entry["name"]: entry for entry in document["resources"]}
    assert entries["configmaps"]["storageVersionHash"] == "qFsyl6wFWjQ="
    assert entries["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert (entries["pods/log"]["kind"], entries["pods/log"]["verbs"]) == ("Pod", ["get"])
    assert entries["pods/proxy"]["kind"] == "PodProxyOptions"
    assert entries["namespaces/finalize"]["verbs"] == ["update"]


def test_custom_kinds_have_their_verbs_and_subresources_in_the_real_order(discovery: Discovery):
    entries = read(discovery, "/apis/types.example.com/v1")["resources"]
    assert [entry["name"] for entry in entries] == ["gadgets", "widgets", "widgets/status", "widgets/scale"]
    assert entries[1]["verbs"] == CUSTOM
    assert entries[1]["storageVersionHash"] == "z3hcfk+Ai7M="
    beta = read(discovery, "/apis/types.example.com/v1beta1")["resources"]
    assert beta[0]["storageVersionHash"] == "z3hcfk+Ai7M="


def test_discovery_serves_one_aggregated_document_to_clients_that_accept_it(discovery: Discovery):
    document = read(discovery, "/apis", f"{AGGREGATED},application/json")
    apps, types = document["items"]
    assert apps["metadata"] == {"name": "apps"}
    deployment = apps["versions"][0]["resources"][0]
    assert deployment["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
    assert [part["subresource"] for part in deployment["subresources"]] == ["scale", "status"]
    widget = types["versions"][0]["resources"][1]
    own = {"group": "types.example.com", "version": "v1", "kind": "Widget"}
    assert widget == {
        "resource": "widgets",
        "responseKind": own,
        "scope": "Namespaced",
        "singularResource": "widget",
        "verbs": CUSTOM,
        "shortNames": ["wd"],
        "categories": ["all", "ty"],
        "subresources": [
            {"subresource": "status", "responseKind": own, "verbs": CHANGE},
            {
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": CHANGE,
            },
        ],
    }
    core = read(discovery, "/api", AGGREGATED)
    assert core["items"][0]["metadata"] == {}


def test_aggregated_discovery_answers_304_while_it_is_unchanged(discovery: Discovery, registry: Registry):
    first = ask(discovery, "/apis", AGGREGATED)
    assert first.content_type == AGGREGATED
    tag = first.headers["ETag"]
    again = ask(discovery, "/apis", AGGREGATED, **{"if-none-match": tag})
    assert (again.status, again.body) == (304, b"")
    gadget = registry.find("types.example.com", "v1", "gadgets")
    assert gadget is not None
    registry.remove(gadget)
    changed = ask(discovery, "/apis", AGGREGATED, **{"if-none-match": tag})
    assert changed.status == 200
    assert b"gadgets" not in changed.body


def test_discovery_accepts_media_type_parameters_in_any_order(discovery: Discovery):
    shuffled = "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"
    assert ask(discovery, "/apis", shuffled).content_type == AGGREGATED
    older = AGGREGATED.replace("v=v2", "v=v2beta1")
    assert ask(discovery, "/apis", f"{older},application/json").content_type == "application/json"


@pytest.mark.parametrize(("path", "accept", "code"), [("/api/v2", "", 404), ("/apis/apps/v1", "text/x", 406)])
def test_discovery_refuses_unknown_versions_and_representations(
    discovery: Discovery, path: str, accept: str, code: int
):
    with pytest.raises(StatusError) as caught:
        ask(discovery, path, accept)
    assert caught.value.code == code


async def test_discovery_ignores_paths_of_objects(discovery: Discovery):
    for path in ("/api/v1/pods", "/apis/apps/v1/deployments", "/healthz"):
        assert await discovery.answer(ApiRequest(method="GET", path=path)) is None


def test_root_path_lists_all_paths(discovery: Discovery):
    paths = read(discovery, "/")["paths"]
    assert {"/api", "/api/v1", "/apis/apps", "/apis/types.example.com/v1beta1", "/openapi/v3"} <= set(paths)
    assert paths == sorted(paths)


def test_version_document_equals_the_version_of_the_recorded_answers(discovery: Discovery):
    version, recorded = read(discovery, "/version"), versions()["kubernetes"]
    assert version["gitVersion"] == f"{recorded}+devcluster"
    assert recorded.startswith(f"v{version['major']}.{version['minor']}.")
