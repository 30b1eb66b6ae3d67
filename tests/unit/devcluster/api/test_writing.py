from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.devcluster.api.conftest import APPLY, CONFIG_MAPS, MERGE, Api, config_map


async def test_a_new_object_gets_what_the_server_gives(api: Api) -> None:
    made = await api.expect(
        201, "POST", CONFIG_MAPS, config_map("a", uid="mine", creationTimestamp="2020-01-01T00:00:00Z")
    )
    metadata = made["metadata"]
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert metadata["namespace"] == "default"
    assert metadata["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert metadata["uid"] != "mine"
    assert metadata["resourceVersion"] == "2"
    assert [entry["manager"] for entry in metadata["managedFields"]] == ["test"]


async def test_a_name_is_generated_and_is_free(api: Api) -> None:
    body = {"metadata": {"generateName": "job-"}}
    names = {(await api.expect(201, "POST", CONFIG_MAPS, body))["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "message"),
    [
        ("POST", "", config_map("taken"), 409, 'configmaps "taken" already exists'),
        (
            "POST",
            "",
            {},
            422,
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (
            "POST",
            "",
            config_map("x", namespace="other"),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "POST",
            "",
            config_map("x", resourceVersion="5"),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            "POST",
            "",
            config_map("x", finalizers=["own"]),
            422,
            (
                'ConfigMap "x" is invalid: metadata.finalizers[0]: Invalid value: "own": name is neither '
                "a standard finalizer name nor is it fully qualified"
            ),
        ),
        (
            "POST",
            "",
            {"kind": "Secret", "apiVersion": "v1"},
            400,
            (
                'Secret in version "v1" cannot be handled as a ConfigMap: '
                "converting (v1.Secret) to (core.ConfigMap): "
                "unknown conversion"
            ),
        ),
        ("PUT", "/nope", config_map("nope"), 404, 'configmaps "nope" not found'),
        (
            "PUT",
            "/taken",
            config_map("other"),
            400,
            "the name of the object (other) does not match the name on the URL (taken)",
        ),
        (
            "PUT",
            "/taken",
            config_map("taken", resourceVersion="1"),
            409,
            (
                'Operation cannot be fulfilled on configmaps "taken": the object has been modified; '
                "please apply your changes to the latest version and try again"
            ),
        ),
        (
            "PUT",
            "",
            config_map("taken"),
            405,
            "the server does not allow this method on the requested resource",
        ),
    ],
)
async def test_refusals_say_what_the_real_server_says(
    api: Api, method: str, path: str, body: object, code: int, message: str
) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("taken"))
    status = await api.expect(code, method, CONFIG_MAPS + path, body)
    assert status["message"] == message


async def test_field_validation_warns_refuses_or_ignores(api: Api) -> None:
    body = {**config_map("a"), "extra": 1}
    warned = await api.ask("POST", f"{CONFIG_MAPS}?dryRun=All", body)
    assert (warned.status, warned.warnings) == (201, ['unknown field "extra"'])
    strict = await api.expect(400, "POST", f"{CONFIG_MAPS}?fieldValidation=Strict", body)
    assert strict["message"].endswith('strict decoding error: unknown field "extra"')
    ignored = await api.ask("POST", f"{CONFIG_MAPS}?fieldValidation=Ignore", body)
    assert (ignored.status, ignored.warnings) == (201, [])


async def test_a_dry_run_leaves_no_trace(api: Api) -> None:
    before = api.server.store.version
    made = await api.expect(201, "POST", f"{CONFIG_MAPS}?dryRun=All", config_map("a"))
    assert "resourceVersion" not in made["metadata"]
    assert api.server.store.version == before


async def test_a_write_that_changes_nothing_keeps_the_version(api: Api) -> None:
    first = await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    again = await api.expect(200, "PUT", f"{CONFIG_MAPS}/a", first)
    assert again == first


async def test_the_last_finalizer_takes_the_object_with_it(api: Api) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a", finalizers=["x.y/z"]))
    marked = await api.expect(200, "DELETE", f"{CONFIG_MAPS}/a")
    assert marked["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    again = await api.expect(409, "POST", CONFIG_MAPS, config_map("a"))
    assert again["message"] == 'object is being deleted: configmaps "a" already exists'
    await api.expect(200, "PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, media=MERGE)
    await api.expect(404, "GET", f"{CONFIG_MAPS}/a")


async def test_a_propagation_policy_becomes_a_finalizer(api: Api) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    marked = await api.expect(200, "DELETE", f"{CONFIG_MAPS}/a?propagationPolicy=Foreground")
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    gone = await api.expect(200, "DELETE", f"{CONFIG_MAPS}/a?propagationPolicy=Background")
    assert gone["status"] == "Success"
    assert gone["details"] == {"name": "a", "kind": "configmaps", "uid": marked["metadata"]["uid"]}


async def test_preconditions_protect_another_object_of_the_name(api: Api) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    status = await api.expect(409, "DELETE", f"{CONFIG_MAPS}/a", {"preconditions": {"uid": "other"}})
    assert status["details"] == {"name": "a", "kind": "ConfigMap"}


async def test_an_apply_creates_and_conflicts(api: Api) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    await api.expect(201, "PATCH", f"{CONFIG_MAPS}/a?fieldManager=one", config, media=APPLY)
    config["data"] = {"k": "2"}
    status = await api.expect(409, "PATCH", f"{CONFIG_MAPS}/a?fieldManager=two", config, media=APPLY)
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    await api.expect(200, "PATCH", f"{CONFIG_MAPS}/a?fieldManager=two&force=true", config, media=APPLY)


async def test_a_namespace_waits_for_its_finalizer(api: Api) -> None:
    await api.expect(201, "POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    leaving = await api.expect(200, "DELETE", "/api/v1/namespaces/n")
    assert leaving["status"] == {"phase": "Terminating"}
    assert "deletionGracePeriodSeconds" not in leaving["metadata"]
    assert await api.expect(200, "DELETE", "/api/v1/namespaces/n") == leaving
    leaving["spec"] = {}
    await api.expect(200, "PUT", "/api/v1/namespaces/n/finalize", leaving)
    await api.expect(404, "GET", "/api/v1/namespaces/n")


async def test_scale_shows_and_sets_the_replicas(api: Api) -> None:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    await api.expect(201, "POST", deployments, {"metadata": {"name": "d"}, "spec": spec})
    scale = await api.expect(200, "GET", f"{deployments}/d/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "app=x"})
    await api.expect(200, "PATCH", f"{deployments}/d/scale", {"spec": {"replicas": 5}}, media=MERGE)
    changed = await api.expect(200, "GET", f"{deployments}/d")
    assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (5, 2)


async def test_a_great_many_unknown_fields_take_no_time_and_few_warnings(api: Api) -> None:
    body = config_map("a") | {f"unknown{number}": 1 for number in range(20_000)}
    async with asyncio.timeout(5):
        answer = await api.ask("POST", f"{CONFIG_MAPS}?fieldValidation=Warn", body)
    assert answer.status == 201
    assert len(answer.warnings) == 100


@pytest.mark.parametrize("media", [MERGE, "application/json-patch+json"])
@pytest.mark.parametrize(
    ("field", "value", "found"),
    [("kind", ["x"], "array"), ("kind", 0, "number"), ("apiVersion", {"": {}}, "object")],
)
async def test_a_patch_cannot_make_the_kind_something_else_than_text(
    api: Api, media: str, field: str, value: Any, found: str
) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    patch = {field: value} if media == MERGE else [{"op": "replace", "path": f"/{field}", "value": value}]
    refused = await api.expect(422, "PATCH", f"{CONFIG_MAPS}/a", patch, media=media)
    why = f"json: cannot unmarshal {found} into Go struct field .{field} of type string"
    assert refused["message"].endswith(f": couldn't get version/kind; json parse error: {why}")


async def test_a_number_that_is_no_set_member_may_be_of_any_size(api: Api) -> None:
    config = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":[%b]}}' % (b"9" * 30)
    refused = await api.expect(500, "PATCH", f"{CONFIG_MAPS}/a?fieldManager=x", config, media=APPLY)
    assert refused["message"].startswith("failed to create typed patch object (/a; /v1, Kind=ConfigMap): ")
