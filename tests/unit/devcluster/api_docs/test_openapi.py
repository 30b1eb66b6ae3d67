from __future__ import annotations

import asyncio
import json
import re
import threading
from typing import Any

import pytest

from devcluster.api.openapi import OpenApi, _fingerprint
from devcluster.api.openapi_protobuf import encode_document
from devcluster.http_call import ApiRequest, ApiResponse
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.schema.node import Schema
from tests.recordings.types import varint
from tests.unit.devcluster.api_docs.conftest import custom

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@pytest.fixture
def openapi(registry: Registry) -> OpenApi:
    return OpenApi(registry)


def ask(openapi: OpenApi, path: str, accept: str = "application/json", **more: Any) -> ApiResponse:
    headers = {"accept": accept} | more.pop("headers", {})
    path, _, query = path.partition("?hash=")
    asked = {"hash": [query]} if query else {}
    return asyncio.run(openapi.answer(ApiRequest(method="GET", path=path, query=asked, headers=headers)))


def read(openapi: OpenApi, path: str) -> Any:
    answer = ask(openapi, path)
    assert answer.status == 200
    return json.loads(answer.body)


def references(answer: ApiResponse) -> set[str]:
    return set(re.findall(r'"\$ref": ?"([^"]*)"', answer.body.decode()))


APPS = "/apis/apps/v1"
DEPLOYMENTS = f"{APPS}/namespaces/{{namespace}}/deployments"
TYPES = "/apis/types.example.com/v1"


@pytest.mark.parametrize(
    ("path", "method", "name"),
    [
        (f"{DEPLOYMENTS}/{{name}}", "get", "readAppsV1NamespacedDeployment"),
        (DEPLOYMENTS, "delete", "deleteAppsV1CollectionNamespacedDeployment"),
        (f"{APPS}/deployments", "get", "listAppsV1DeploymentForAllNamespaces"),
        (f"{DEPLOYMENTS}/{{name}}/scale", "put", "replaceAppsV1NamespacedDeploymentScale"),
        (f"{TYPES}/gadgets/{{name}}", "get", "readTypesExampleComV1Gadget"),
    ],
)
def test_openapi_operation_ids_equal_method_names_in_generated_clients(
    openapi: OpenApi, path: str, method: str, name: str
):
    document = read(openapi, f"/openapi/v3{APPS if path.startswith(APPS) else TYPES}")
    assert document["paths"][path][method]["operationId"] == name


def test_openapi_documents_of_the_index_define_every_referenced_schema(openapi: OpenApi):
    paths = read(openapi, "/openapi/v3")["paths"]
    ours = "apis/types.example.com"
    assert list(paths) == ["api/v1", "apis/apps/v1", f"{ours}/v1", f"{ours}/v1beta1"]
    for entry in paths.values():
        answer = ask(openapi, entry["serverRelativeURL"])
        assert answer.headers["Cache-Control"] == "public, immutable"
        schemas = json.loads(answer.body)["components"]["schemas"]
        assert set() < references(answer) <= {f"#/components/schemas/{name}" for name in schemas}
    answer = ask(openapi, "/openapi/v2")
    definitions = json.loads(answer.body)["definitions"]
    assert set() < references(answer) <= {f"#/definitions/{name}" for name in definitions}


def test_openapi_v2_omits_keywords_that_it_does_not_support(openapi: OpenApi):
    document = read(openapi, "/openapi/v2")
    widget = document["definitions"]["com.example.types.v1.Widget"]
    assert widget["properties"]["metadata"]["$ref"].startswith("#/definitions/")
    spec = widget["properties"]["spec"]["properties"]
    assert spec["color"] == {"enum": ["red", "green"]}
    assert spec["port"] == {"x-kubernetes-int-or-string": True}
    assert spec["template"] == {
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert "default" not in spec["size"]
    port = document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert port == {"type": "string", "format": "int-or-string"}


def test_openapi_hash_changes_only_for_the_group_version_whose_schema_changes(
    openapi: OpenApi, registry: Registry
):
    before = read(openapi, "/openapi/v3")["paths"]
    changed = {"type": "object", "description": "Another thing."}
    registry.add(custom(schema=Schema(type="object", source=changed)))
    after = read(openapi, "/openapi/v3")["paths"]
    assert [path for path in after if after[path] != before[path]] == ["apis/types.example.com/v1"]
    schemas = read(openapi, "/openapi/v3/apis/types.example.com/v1")["components"]["schemas"]
    assert schemas["com.example.types.v1.Widget"]["description"] == "Another thing."


def test_openapi_redirects_an_old_hash_and_answers_304_for_an_unchanged_document(openapi: OpenApi):
    answer = ask(openapi, "/openapi/v3/apis/apps/v1?hash=ABC")
    now = read(openapi, "/openapi/v3")["paths"]["apis/apps/v1"]["serverRelativeURL"]
    assert (answer.status, answer.headers["Location"]) == (301, now)
    for path in ("/openapi/v2", "/openapi/v3/apis/apps/v1"):
        tag = ask(openapi, path).headers["ETag"]
        again = ask(openapi, path, headers={"if-none-match": tag})
        assert (again.status, again.body) == (304, b"")


def test_openapi_v2_is_available_as_protobuf_but_openapi_v3_is_not(openapi: OpenApi):
    assert ask(openapi, "/openapi/v3/apis/apps/v1", PROTOBUF).status == 406
    answer = ask(openapi, "/openapi/v2", PROTOBUF)
    assert (answer.status, answer.content_type) == (200, PROTOBUF.replace("@", "."))


def field(number: int, *parts: bytes) -> bytes:
    """Encode a message or a text as a protobuf field."""
    content = b"".join(parts)
    return varint(number << 3 | 2) + varint(len(content)) + content


def test_encode_document_writes_schemas_and_extensions_as_protobuf():
    schema = {
        "type": "object",
        "properties": {"size": {"$ref": "#/definitions/Size"}},
        "x-kubernetes-group-version-kind": [{"kind": "Widget"}],
    }
    properties = field(25, field(1, field(1, b"size"), field(2, field(1, b"#/definitions/Size"))))
    value = field(2, field(2, b'[{"kind":"Widget"}]'))
    extension = field(31, field(1, b"x-kubernetes-group-version-kind"), value)
    definition = field(2, field(22, field(1, b"object")), properties, extension)
    document = {"swagger": "2.0", "definitions": {"Widget": schema}}
    expected = field(1, b"2.0") + field(9, field(1, field(1, b"Widget"), definition))
    assert encode_document(document) == expected


def test_encode_document_writes_body_query_and_path_parameters_to_different_fields():
    parameters = [{"in": "body", "required": True}, {"in": "query"}, {"in": "path", "maxLength": 5}]
    body = field(1, field(1, field(3, b"body"), b"\x20\x01"))
    query = field(1, field(2, field(3, field(2, b"query"))))
    path = field(1, field(2, field(4, field(2, b"path"))))
    expected = field(2, field(9, body), field(9, query), field(9, path))
    document = {"paths": {"/x": {"parameters": parameters}}}
    assert encode_document(document) == field(8, field(2, field(1, b"/x"), expected))


async def test_openapi_document_is_built_only_once_even_if_its_first_request_is_cancelled(
    openapi: OpenApi, monkeypatch: pytest.MonkeyPatch
):
    begun, go, made = threading.Event(), threading.Event(), []

    def make(resources: list[Resource]) -> dict[str, Any]:
        made.append(resources)
        begun.set()
        go.wait(10)
        return {"components": {"schemas": {}}}

    monkeypatch.setattr("devcluster.api.openapi._make", make)
    request = ApiRequest(method="GET", path="/openapi/v3/api/v1", headers={"accept": "application/json"})
    first = asyncio.create_task(openapi.answer(request))
    await asyncio.to_thread(begun.wait, 10)
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.create_task(openapi.answer(request))
    await asyncio.sleep(0.1)
    go.set()
    assert (await second).status == 200
    assert len(made) == 1


def test_openapi_answers_404_for_a_group_that_is_not_served(openapi: OpenApi):
    assert ask(openapi, "/openapi/v3/apis/nope/v1").status == 404


def test_openapi_hash_changes_with_the_selectable_fields():
    before, after = custom(), custom(selectable_fields=(".spec.size",))
    assert _fingerprint([before]) != _fingerprint([after])
