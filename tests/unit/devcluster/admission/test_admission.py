from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from devcluster.admission import ClusterAdmission, WebhookFailed
from devcluster.api.interfaces import AdmissionInfo
from devcluster.errors import StatusError
from devcluster.http_call import User
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.schema.node import Schema
from devcluster.storage import Key, Store
from tests.unit.devcluster.api_docs.conftest import resource

Object = dict[str, Any]
Answer = Callable[[Object], Object]
HOOKS = "admissionregistration.k8s.io"


CONFIG_MAPS = resource("ConfigMap", schema=Schema())
PODS = resource("Pod", schema=Schema())
NAMESPACES = resource("Namespace", schema=Schema(), namespaced=False)


class FakeWebhooks:
    """Answers by the URL of the webhook, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, Object]] = []

    async def call(self, client_config: Object, review: Object, timeout: float) -> Object:
        url = client_config["url"]
        request = json.loads(json.dumps(review["request"]))
        self.asked.append((url, request))
        response = {"uid": request["uid"], **self.answers[url](request)}
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def info(of: Resource = CONFIG_MAPS, **fields: Any) -> AdmissionInfo:
    given: Object = {
        "operation": "CREATE",
        "resource": of,
        "subresource": "",
        "kind": (of.group, of.version, of.kind),
        "namespace": "a" if of.namespaced else "",
        "name": "n",
        "obj": {"apiVersion": of.api_version, "kind": of.kind, "metadata": {"name": "n"}},
        "old": None,
        "options": {},
        "dry_run": False,
        "user": User("bob", ("team",)),
        "warnings": [],
    }
    return AdmissionInfo(**{**given, **fields})


RULE = {
    "apiGroups": ["*"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["configmaps", "namespaces"],
}


class World:
    def __init__(self) -> None:
        self.store = Store()
        self.webhooks = FakeWebhooks()
        self.admission = ClusterAdmission(
            self.store,
            Registry([CONFIG_MAPS, PODS, NAMESPACES]),
            self.webhooks,  # type: ignore[arg-type] # all that is called
            random.Random(1),
            service_accounts=False,
        )
        self.put(
            "namespaces", "", "a", {"metadata": {"labels": {"team": "x"}}, "status": {"phase": "Active"}}
        )

    def put(self, plural: str, namespace: str, name: str, obj: Object, group: str = "") -> None:
        obj.setdefault("metadata", {}).update(name=name, uid=f"uid-{name}")
        self.store.create(Key(group, plural, namespace, name), obj)

    def hook(self, name: str, answer: Answer, *, mutating: bool = False, **fields: Any) -> None:
        hook = {
            "name": f"{name}.example.com",
            "clientConfig": {"url": name},
            "rules": [RULE],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            **fields,
        }
        plural = "mutatingwebhookconfigurations" if mutating else "validatingwebhookconfigurations"
        self.webhooks.answers[name] = answer
        self.put(plural, "", name, {"webhooks": [hook]}, HOOKS)

    async def admit(self, asked: AdmissionInfo) -> Object | None:
        asked.obj = await self.admission.mutate(asked)
        await self.admission.validate(asked)
        return asked.obj

    async def refusal(self, asked: AdmissionInfo) -> StatusError:
        with pytest.raises(StatusError) as caught:
            await self.admit(asked)
        return caught.value

    @property
    def called(self) -> list[str]:
        return [name for name, _ in self.webhooks.asked]


def allow(_request: Object) -> Object:
    return {"allowed": True}


def label(name: str) -> Answer:
    def answer(request: Object) -> Object:
        labels = {**(request["object"]["metadata"].get("labels") or {}), name: "yes"}
        patch = [{"op": "add", "path": "/metadata/labels", "value": labels}]
        packed = base64.b64encode(json.dumps(patch).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": packed}

    return answer


@pytest.fixture
def world() -> World:
    return World()


async def test_unchanged_object_causes_no_reinvocation(world: World):
    world.hook("a", label("a"), mutating=True, reinvocationPolicy="IfNeeded")
    world.hook("b", allow, mutating=True)
    await world.admit(info())
    assert world.called == ["a", "b"]


def condition(expression: str) -> list[Object]:
    return [{"name": "c", "expression": expression}]


@pytest.mark.parametrize(
    ("fields", "called"),
    [
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, False),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, False),
        ({"matchConditions": condition('object.metadata.name == "n"')}, True),
        ({"matchConditions": condition('request.userInfo.username != "bob"')}, False),
        ({"failurePolicy": "Ignore", "matchConditions": condition("object.nope == 1")}, False),
        *(
            ({"rules": [{**RULE, "apiGroups": [""], "resources": ["configmaps"], **rule}]}, called)
            for rule, called in [
                ({}, True),
                ({"operations": ["UPDATE"]}, False),
                ({"operations": ["*"]}, True),
                ({"apiGroups": ["apps"]}, False),
                ({"resources": ["*"]}, True),
                ({"resources": ["configmaps/status"]}, False),
                ({"resources": ["*/*"]}, True),
                ({"scope": "Cluster"}, False),
                ({"scope": "Namespaced"}, True),
            ]
        ),
    ],
)
async def test_webhook_is_called_only_for_writes_that_its_rules_selectors_and_conditions_match(
    world: World, fields: Object, called: bool
):
    world.hook("look", allow, **fields)
    await world.admit(info())
    assert world.called == (["look"] if called else [])


async def test_namespace_selector_matches_the_labels_of_a_namespace_being_created(world: World):
    world.hook("look", allow, namespaceSelector={"matchLabels": {"new": "yes"}})
    obj = {"metadata": {"name": "n", "labels": {"new": "yes"}}}
    await world.admit(info(NAMESPACES, obj=obj))
    assert world.called == ["look"]


async def test_match_condition_refuses_the_request_when_it_cannot_be_evaluated(world: World):
    world.hook("look", allow, matchConditions=condition("object.nope == 1"))
    refused = await world.refusal(info())
    assert (refused.code, refused.message) == (
        403,
        "configmaps \"n\" is forbidden: expression 'object.nope == 1' resulted in error: no such key: nope",
    )


def fail(_request: Object) -> Object:
    raise WebhookFailed("Post: refused")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (fail, "failed to call webhook: Post: refused"),
        (
            lambda _: {"uid": "x", "allowed": True},
            'received invalid webhook response: expected response.uid="UID", got "x"',
        ),
        (
            lambda _: {"allowed": True, "patch": "W10="},
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
        (
            lambda _: {"allowed": True, "patch": "!", "patchType": "JSONPatch"},
            "received undecodable patch in webhook response: ",
        ),
    ],
)
async def test_webhook_failure_is_reported(world: World, answer: Answer, problem: str):
    world.hook("bad", answer, mutating=True)
    refused = await world.refusal(info())
    message = refused.message.replace(world.webhooks.asked[0][1]["uid"], "UID")
    assert refused.code == 500
    assert message.startswith(f'Internal error occurred: failed calling webhook "bad.example.com": {problem}')


async def test_webhook_with_side_effects_is_not_called_in_a_dry_run(world: World):
    world.hook("acts", allow, sideEffects="Some")
    refused = await world.refusal(info(dry_run=True))
    assert refused.message == 'admission webhook "acts.example.com" does not support dry run'
    assert world.called == []


async def test_webhook_is_not_called_for_webhook_configurations(world: World):
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    assert not world.admission.handles(info())
    world.hook("deny", allow, rules=[everything])
    assert world.admission.handles(info())
    of = resource("ValidatingWebhookConfiguration", schema=Schema(), group=HOOKS)
    assert not world.admission.handles(info(of, namespace="", operation="DELETE", obj=None))


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        ({}, 400, "", "denied the request without explanation"),
        ({"code": 200, "reason": "Because"}, 400, "Because", "denied the request: Because"),
        ({"code": 403, "reason": "Forbidden", "message": "m"}, 403, "Forbidden", "denied the request: m"),
    ],
)
async def test_refusal_has_code_reason_and_message_of_the_webhook(
    world: World, status: Object, code: int, reason: str, message: str
):
    world.hook("deny", lambda _: {"allowed": False, "status": status})
    refused = await world.refusal(info())
    assert (refused.code, refused.reason) == (code, reason)
    assert refused.message == f'admission webhook "deny.example.com" {message}'
