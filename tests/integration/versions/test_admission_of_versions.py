"""Admission webhooks of a kind with two versions: in which version they see an object, and over which TLS."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.versions.parcels import FRAGILE, NEW, OLD, Parcels
from tests.support.api_access import ApiFailure
from tests.support.certificates import Authority
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.contract


CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
PROBE = "probe"

Object = dict[str, Any]


class Admissions:
    """Configures webhooks for parcels, and takes them away."""

    def __init__(self, parcels: Parcels) -> None:
        self.parcels = parcels
        self.webhook = parcels.webhook
        self._paths: list[str] = []

    def add(self, sort: str, versions: tuple[str, ...], *, ready: bool = True, **options: Any) -> str:
        """Have `sort` (mutating or validating) called at the path `sort`; returns its configuration's path.

        `ready`: wait until the server calls it, which takes it a moment to learn.
        """
        name = f"{sort}.{self.parcels.group}"
        rule = {
            "apiGroups": [self.parcels.group],
            "apiVersions": list(versions),
            "resources": ["parcels", "parcels/status"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }
        hook = {
            "name": name,
            "clientConfig": self.webhook.client_config(sort),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [rule],
            **options,
        }
        collection = f"{CONFIGURATIONS}/{sort}webhookconfigurations"
        self.parcels.plane.api.create(collection, {"metadata": {"name": name}, "webhooks": [hook]})
        self._paths.append(f"{collection}/{name}")
        if ready:
            self.wait(versions[0])
        return self._paths[-1]

    def wait(self, version: str) -> None:
        """Return once the server calls the last one that was added."""

        def is_called() -> bool:
            self.webhook.forget()
            self.refused(version, PROBE, dryRun="All")
            return bool(self.webhook.admissions)

        eventually(is_called)
        self.webhook.forget()

    def refused(self, version: str, name: str, **query: str) -> str:
        """What the server says against a new parcel; empty when it takes it."""
        spec = {"size": "3x4"} if version == OLD else {"width": 3, "height": 4}
        body = self.parcels.parcel(version, name, **spec)
        try:
            self.parcels.plane.api.request("POST", self.parcels.path(version), body=body, query=query)
        except ApiFailure as failure:
            message: str = json.loads(failure.body)["message"]
            return message
        return ""

    def asked(self) -> list[tuple[str, str, str, str]]:
        """Since last asked: the path, the operation, and the versions of the review and of the request."""
        seen = [
            (path, each["operation"], each["kind"]["version"], each["requestKind"]["version"])
            for path, each in self.webhook.admissions
        ]
        self.webhook.forget()
        return seen

    def remove(self) -> None:
        """Take all away."""
        for path in self._paths:
            self.parcels.plane.api.delete(path)


@pytest.fixture
def admissions(parcels: Parcels) -> Iterator[Admissions]:
    admissions = Admissions(parcels)
    yield admissions
    admissions.remove()


def patching(*operations: Object) -> Callable[[str, Object], Object]:
    """An answer that patches every parcel at the mutating path."""
    return lambda path, _: {"patch": list(operations)} if path == "mutating" else {}


def bundle(*authorities: Authority) -> str:
    return base64.b64encode(b"".join(each.pem for each in authorities)).decode()


# Versions.


def test_an_equivalent_webhook_sees_the_version_that_it_asked_for(
    parcels: Parcels, admissions: Admissions
) -> None:
    admissions.add("validating", (NEW,))
    parcels.create(OLD, "a", size="3x4")
    ((_, review),) = parcels.webhook.admissions
    assert review["object"]["spec"] == {"width": 3, "height": 4, "via": "road"}
    assert review["resource"]["version"] == review["kind"]["version"] == NEW
    assert review["requestResource"]["version"] == review["requestKind"]["version"] == OLD
    parcels.webhook.forget()
    parcels.patch(OLD, "a", {"spec": {"size": "5x6"}})
    ((_, review),) = parcels.webhook.admissions
    assert [review["oldObject"]["spec"]["width"], review["object"]["spec"]["width"]] == [3, 5]
    parcels.webhook.forget()
    parcels.plane.api.delete(parcels.path(OLD, "a"))
    ((_, review),) = parcels.webhook.admissions
    assert review["operation"] == "DELETE"
    assert review["object"] is None
    assert review["oldObject"]["apiVersion"] == f"{parcels.group}/{NEW}"
    assert review["oldObject"]["spec"]["width"] == 5


def test_an_exact_webhook_is_not_called_for_the_other_version(
    parcels: Parcels, admissions: Admissions
) -> None:
    admissions.add("validating", (NEW,), matchPolicy="Exact")
    parcels.create(OLD, "a", size="3x4")
    assert not admissions.asked()
    parcels.create(NEW, "b", width=1, height=2)
    assert admissions.asked() == [("validating", "CREATE", NEW, NEW)]


def test_a_webhook_for_both_versions_is_called_once_in_that_of_the_request(
    parcels: Parcels, admissions: Admissions
) -> None:
    admissions.add("validating", (NEW, OLD))
    parcels.create(OLD, "a", size="3x4")
    parcels.create(NEW, "b", width=1, height=2)
    assert admissions.asked() == [("validating", "CREATE", OLD, OLD), ("validating", "CREATE", NEW, NEW)]


def test_conditions_look_at_the_version_that_the_webhook_asked_for(
    parcels: Parcels, admissions: Admissions
) -> None:
    wide = {"name": "wide", "expression": "request.operation == 'DELETE' || object.spec.width > 2"}
    admissions.add("validating", (NEW,), matchConditions=[wide])
    parcels.create(OLD, "a", size="1x2")
    assert not admissions.asked()
    parcels.create(OLD, "b", size="7x8")
    assert len(admissions.asked()) == 1


def test_a_patch_in_the_webhooks_version_is_converted_back(parcels: Parcels, admissions: Admissions) -> None:
    admissions.add("mutating", (NEW,))
    admissions.add("validating", (NEW,))
    parcels.webhook.admit = patching(
        {"op": "add", "path": "/spec/note", "value": "patched"},
        {"op": "add", "path": "/spec/unknown", "value": "x"},
        {"op": "replace", "path": "/spec/height", "value": 9},
    )
    created = parcels.create(OLD, "a", size="3x4")
    assert created["spec"] == {"size": "3x9", "note": "patched", "via": "road"}
    # What was patched got the defaults of the version in which it was.
    assert created["metadata"]["annotations"] == {FRAGILE: "false"}
    assert parcels.get(NEW, "a")["spec"] == {
        "width": 3,
        "height": 9,
        "note": "patched",
        "via": "road",
        "fragile": False,
    }


def test_mutation_comes_before_the_schema_of_the_request_and_validation_after_it(
    parcels: Parcels, admissions: Admissions
) -> None:
    admissions.add("mutating", (OLD,))
    admissions.add("validating", (OLD,))
    parcels.webhook.admit = patching({"op": "replace", "path": "/spec/size", "value": "big"})
    with pytest.raises(ApiFailure, match=r"spec\.size in body should match"):
        parcels.create(OLD, "a", size="3x4")
    assert [path for path, *_ in admissions.asked()] == ["mutating"]
    parcels.webhook.admit = patching({"op": "replace", "path": "/spec/size", "value": "3x4"})
    assert parcels.create(OLD, "a", size="big")["spec"]["size"] == "3x4"
    assert [path for path, *_ in admissions.asked()] == ["mutating", "validating"]


@pytest.mark.parametrize(("sort", "times"), [("mutating", 2), ("validating", 1)])
def test_a_conversion_that_fails_refuses_the_write_whatever_the_policy_says(
    parcels: Parcels, admissions: Admissions, sort: str, times: int
) -> None:
    admissions.add(sort, (NEW,), failurePolicy="Ignore")

    def never(_obj: Object, _version: str) -> Object:
        raise ValueError("not today")

    parcels.webhook.convert = never
    failed = f"conversion webhook for {parcels.group}/{OLD}, Kind=Parcel failed: not today"
    assert admissions.refused(OLD, "a") == "Internal error occurred: " * times + failed


# Refusals and warnings.


def test_warnings_are_told_once_each_and_only_if_a_header_can_hold_them(
    parcels: Parcels, admissions: Admissions
) -> None:
    admissions.add("validating", (OLD,))
    admissions.add("mutating", (OLD,))
    parcels.webhook.admit = lambda path, _: {"warnings": ["both", "", "two\nlines", path, "both"]}
    body = json.dumps(parcels.parcel(OLD, "a", size="3x4"))
    created = parcels.plane.kubectl("create", "-f", "-", stdin=body)
    deprecation = f"{parcels.group}/{OLD} Parcel is deprecated; use {parcels.group}/{NEW} Parcel"
    expected = [deprecation, "both", "mutating", "validating"]
    assert created.stderr.splitlines() == [f"Warning: {text}" for text in expected]


def test_one_that_changed_nothing_is_called_again_when_a_later_one_changed_it_in_another_version(
    parcels: Parcels, admissions: Admissions
) -> None:
    path = admissions.add("mutating", (NEW,), reinvocationPolicy="IfNeeded")
    configuration = parcels.plane.api.get(path)
    second = json.loads(json.dumps(configuration["webhooks"][0]))
    second["name"] = f"second.{parcels.group}"
    second["clientConfig"] = parcels.webhook.client_config("second")
    second["rules"][0]["apiVersions"] = [OLD]
    configuration["webhooks"].append(second)
    parcels.plane.api.request("PUT", path, body=configuration)

    def both_are_called() -> bool:
        parcels.webhook.forget()
        admissions.refused(OLD, PROBE, dryRun="All")
        return len(parcels.webhook.admissions) == 2

    eventually(both_are_called)
    parcels.webhook.forget()
    noted = {"op": "add", "path": "/spec/note", "value": "second"}
    parcels.webhook.admit = lambda path, _: {"patch": [noted]} if path == "second" else {}
    parcels.create(OLD, "a", size="3x4")
    assert [(path, version) for path, _, version, _ in admissions.asked()] == [
        ("mutating", NEW),
        ("second", OLD),
        ("mutating", NEW),
    ]


# TLS.


def test_a_bundle_of_two_authorities_lets_a_certificate_be_renewed(
    parcels: Parcels, admissions: Admissions
) -> None:
    webhook, other = parcels.webhook, Authority("the next")
    config = {**webhook.client_config("validating"), "caBundle": bundle(webhook.authority, other)}
    path = admissions.add("validating", (OLD,), clientConfig=config)
    webhook.renew(other)
    assert not admissions.refused(OLD, "kept-connection")
    with webhook.down():
        pass
    assert not admissions.refused(OLD, "new-connection")
    # The old authority is taken away, then the new one.
    for bundled, trusted in ((bundle(other), True), (bundle(Authority("others")), False)):
        configuration = parcels.plane.api.get(path)
        configuration["webhooks"][0]["clientConfig"]["caBundle"] = bundled
        parcels.plane.api.request("PUT", path, body=configuration)
        if trusted:
            assert not admissions.refused(OLD, "trusted")
        else:
            eventually(lambda: "unknown authority" in admissions.refused(OLD, PROBE, dryRun="All"))


def test_connections_are_kept(parcels: Parcels, admissions: Admissions) -> None:
    admissions.add("validating", (OLD,))
    for index in range(20):
        parcels.create(OLD, f"p-{index}", size="1x2")
    assert len(parcels.webhook.admissions) == 20
    # Not always one: a Go client dials again when the last connection is not back in its pool yet.
    assert len(parcels.webhook.callers["validating"]) <= 5


def test_a_conversion_webhook_of_another_authority_is_not_trusted(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")

    def trust(*authorities: Authority) -> None:
        config = {**parcels.webhook.client_config("convert"), "caBundle": bundle(*authorities)}
        patch = {"spec": {"conversion": {"webhook": {"clientConfig": config}}}}
        parcels.plane.api.patch(parcels.definition_path, patch)

    def why_not() -> str:
        try:
            parcels.get(NEW, "a")
        except ApiFailure as failure:
            return str(failure)
        return ""

    trust(Authority("others"))
    eventually(lambda: "x509: certificate signed by unknown authority" in why_not())
    trust(Authority("others"), parcels.webhook.authority)
    eventually(lambda: not why_not())
    eventually(lambda: parcels.list(NEW))
