"""What still works of a kind with two versions while its conversion webhook is down, and what comes after."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.versions.parcels import NEW, OLD, Parcels
from tests.integration.versions.watched import Watched
from tests.support.api_access import ApiFailure
from tests.support.control_plane import Feature
from tests.support.eventually import eventually
from tests.support.namespaces import create_namespace

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane
    from tests.support.webhook_server import WebhookServer

pytestmark = pytest.mark.contract

FINALIZER = {"metadata": {"finalizers": ["tests.example.com/hold"]}}


def names(items: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] for each in items]


def refused(call: Any, *arguments: Any, **options: Any) -> str:
    """The server's message, that of a conversion that failed."""
    with pytest.raises(ApiFailure) as failure:
        call(*arguments, **options)
    assert failure.value.status == 500
    message: str = json.loads(failure.value.body)["message"]
    return message


def failed(parcels: Parcels, version: str) -> str:
    """Why an object of that version could not be converted."""
    url, host = parcels.webhook.url, parcels.webhook.url.removeprefix("https://")
    about = f"conversion webhook for {parcels.group}/{version}, Kind=Parcel failed"
    return f'{about}: Post "{url}/convert?timeout=30s": dial tcp {host}: connect: connection refused'


def test_the_stored_version_does_without_the_webhook(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")
    with parcels.webhook.down():
        parcels.create(OLD, "b", size="1x2")
        parcels.patch(OLD, "a", {"spec": {"note": "x"}})
        parcels.put(OLD, "a", parcels.get(OLD, "a"))
        parcels.apply(OLD, "a", "one", note="x")
        assert names(parcels.list(OLD)) == ["a", "b"]
        parcels.plane.api.delete(parcels.path(OLD, "a"))
        assert names(parcels.list(OLD)) == ["b"]


def test_requests_in_another_version_say_which_webhook_they_miss(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")
    parcels.list(NEW)
    with parcels.webhook.down():
        assert refused(parcels.get, NEW, "a") == failed(parcels, OLD)
        assert refused(parcels.create, NEW, "b", width=1, height=2) == failed(parcels, NEW)
        assert refused(parcels.patch, NEW, "a", {"spec": {"note": "x"}}) == failed(parcels, NEW)
        assert refused(parcels.apply, NEW, "a", "one", note="x") == failed(parcels, NEW)


def test_what_was_read_before_and_has_not_changed_is_still_listed(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")
    parcels.create(OLD, "b", size="3x4")
    assert names(parcels.list(NEW)) == ["a", "b"]
    with parcels.webhook.down():
        assert names(parcels.list(NEW)) == ["a", "b"]
        assert parcels.get(NEW, "a", resourceVersion="0")["spec"]["width"] == 3
        parcels.patch(OLD, "a", {"spec": {"size": "5x6"}})
        assert refused(parcels.list, NEW) == failed(parcels, OLD)
    eventually(lambda: parcels.list(NEW)[0]["spec"]["width"] == 5)
    assert parcels.get(NEW, "a")["spec"]["width"] == 5


def test_an_object_that_cannot_be_read_is_not_deleted(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")
    with parcels.webhook.down():
        api = parcels.plane.api
        assert refused(api.delete, parcels.path(NEW, "a")) == failed(parcels, OLD)
        assert names(parcels.list(OLD)) == ["a"]
    eventually(lambda: parcels.list(NEW))
    parcels.plane.api.delete(parcels.path(NEW, "a"))
    assert parcels.list(OLD) == []


def test_a_finalizer_comes_off_in_the_stored_version_alone(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")
    parcels.patch(OLD, "a", FINALIZER)
    parcels.list(NEW)
    with parcels.webhook.down():
        parcels.plane.api.delete(parcels.path(OLD, "a"))
        assert refused(parcels.patch, NEW, "a", {"metadata": {"finalizers": None}})
        assert parcels.get(OLD, "a")["metadata"]["deletionTimestamp"]
        parcels.patch(OLD, "a", {"metadata": {"finalizers": None}})
        assert parcels.list(OLD) == []


def test_a_watch_waits_for_the_webhook_and_leaves_nothing_out(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="1x2")
    version = parcels.plane.api.get(parcels.path(NEW))["metadata"]["resourceVersion"]
    with Watched(parcels.plane, parcels.path(NEW), watch="true", resourceVersion=version) as watch:
        with parcels.webhook.down():
            parcels.patch(OLD, "a", {"spec": {"size": "3x4"}})
            parcels.create(OLD, "b", size="5x6")
            parcels.patch(OLD, "a", {"spec": {"size": "7x8"}})
            parcels.plane.api.delete(parcels.path(OLD, "b"))
        seen = [
            (each["type"], each["object"]["metadata"]["name"], each["object"]["spec"]["width"])
            for each in watch.take(4)
        ]
    assert seen == [("MODIFIED", "a", 3), ("ADDED", "b", 5), ("MODIFIED", "a", 7), ("DELETED", "b", 5)]


def test_a_watch_that_cannot_begin_ends_with_a_timeout(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="1x2")
    parcels.list(NEW)
    with parcels.webhook.down():
        parcels.patch(OLD, "a", {"spec": {"size": "3x4"}})
        with Watched(parcels.plane, parcels.path(NEW), watch="true") as watch:
            (event,) = watch.take()
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 504
    assert event["object"]["message"].startswith("Timeout: Too large resource version: ")


def test_who_owns_what_in_a_version_that_cannot_be_had_is_forgotten_by_a_write(parcels: Parcels) -> None:
    parcels.apply(NEW, "a", "two", width=1, height=2)
    with parcels.webhook.down():
        kept = parcels.patch(OLD, "a", {"spec": {"note": "x"}})
        assert "managedFields" not in kept["metadata"]


def test_an_apply_beside_a_manager_whose_version_cannot_be_had_is_refused(parcels: Parcels) -> None:
    parcels.apply(NEW, "a", "two", width=1, height=2)
    with parcels.webhook.down():
        assert refused(parcels.apply, OLD, "a", "one", note="x") == failed(parcels, OLD)
    assert len(parcels.get(OLD, "a")["metadata"]["managedFields"]) == 1


def test_a_namespace_goes_once_the_webhook_is_back(
    control_plane: ControlPlane, webhook: WebhookServer
) -> None:
    control_plane.require(Feature.WORKLOADS)
    namespace = f"going-{webhook.url.rpartition(':')[2]}"
    create_namespace(control_plane, namespace)
    parcels = Parcels(control_plane, namespace, webhook)
    parcels.define()
    try:
        parcels.create(NEW, "new", width=1, height=2)
        parcels.store_as(NEW)
        path = f"/api/v1/namespaces/{namespace}"
        with webhook.down():
            control_plane.api.delete(path)
            eventually(lambda: control_plane.api.get(path)["status"]["phase"] == "Terminating")

        def gone() -> None:
            found = control_plane.api.find(path)
            assert found is None, found["status"]

        eventually(gone)
    finally:
        parcels.remove()


def test_what_is_stored_in_a_version_that_is_gone_cannot_be_read(parcels: Parcels) -> None:
    api = parcels.plane.api
    parcels.create(NEW, "a", width=1, height=2)
    parcels.store_as(NEW)
    api.patch(f"{parcels.definition_path}/status", {"status": {"storedVersions": [NEW]}})
    both = api.get(parcels.definition_path)["spec"]["versions"]
    lost = f"request to convert CR from an invalid group/version: {parcels.group}/{OLD}"

    def serve(versions: list[dict[str, Any]]) -> None:
        definition = api.get(parcels.definition_path)
        definition["spec"]["versions"] = versions
        api.request("PUT", parcels.definition_path, body=definition)

    def is_lost() -> bool:
        try:
            parcels.get(NEW, "a")
        except ApiFailure as failure:
            return lost in str(failure)
        return False

    serve([each for each in both if each["name"] == NEW])
    try:
        eventually(is_lost)
    finally:
        # Else nobody could delete it, and no namespace of the whole cluster would ever go.
        serve(both)
    eventually(lambda: parcels.get(NEW, "a"))
