from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import pytest

from devcluster.access.authentication import ADMIN, Authenticator
from devcluster.access.rbac import Attributes, RbacAuthorizer
from devcluster.access.reviews import AccessReviews
from devcluster.access.tokens import AUDIENCE, ServiceAccountTokens
from devcluster.clock import Clock
from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest, User
from devcluster.storage import Key, Store

Object = dict[str, Any]
ACCOUNT: Object = {"metadata": {"name": "robot", "namespace": "a", "uid": "account-uid"}}
POD: Object = {
    "metadata": {"name": "p", "namespace": "a", "uid": "pod-uid"},
    "spec": {"serviceAccountName": "robot", "nodeName": "n"},
}


class World:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0
        self.clock = Clock(lambda: self.time)
        self.store = Store()
        self.authorizer = RbacAuthorizer(self.store)
        self.tokens = ServiceAccountTokens(self.store, self.clock, random.Random(1))
        self.authenticator = Authenticator(
            self.authorizer, self.tokens, lambda _: Attributes(verb="list", resource="pods")
        )
        self.authenticator.add("secret", ADMIN)
        self.authenticator.add("bobs", User("bob"))
        self.reviews = AccessReviews(self.authenticator, self.authorizer, self.tokens, self.clock)
        self.store.create(Key("", "serviceaccounts", "a", "robot"), ACCOUNT)

    def ask(self, token: str = "", **headers: str) -> User:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            given["authorization"] = f"Bearer {token}"
        return self.authenticator.authenticate(ApiRequest(method="GET", path="/", headers=given))

    def token(self, **spec: Any) -> str:
        answer = self.tokens.issue(ACCOUNT, {"kind": "TokenRequest", "spec": spec})
        return str(answer["status"]["token"])


@pytest.fixture
def world() -> World:
    return World()


def test_token_authenticates_its_user_and_none_is_anonymous(world: World):
    assert world.ask("secret") == ADMIN
    assert world.ask("bobs") == User("bob", ("system:authenticated",))
    assert world.ask() == User("system:anonymous", ("system:unauthenticated",))


@pytest.mark.parametrize(
    "token",
    [
        *("nope", "a.b.c", "....", "ä.ö.ü"),
        lambda world: world.token(audiences=["others"]),
        lambda world: ServiceAccountTokens(world.store, world.clock, random.Random(1)).issue(ACCOUNT, {})[
            "status"
        ]["token"],
    ],
    ids=["opaque", "parts", "dots", "not ASCII", "another audience", "another key"],
)
def test_token_that_is_not_for_the_server_is_refused(world: World, token: Any):
    with pytest.raises(StatusError) as caught:
        world.ask(token(world) if callable(token) else token)
    assert (caught.value.code, caught.value.message) == (401, "Unauthorized")


def test_certificate_names_user_and_groups_and_is_identified_by_its_fingerprint(world: World):
    subject = {"CN": ["ann"], "O": ["one", "two"], "X509SHA256": ["12ab"]}
    user = world.authenticator.authenticate(ApiRequest(method="GET", path="/", client_certificate=subject))
    assert (user.name, user.groups) == ("ann", ("one", "two", "system:authenticated"))
    assert user.extra == {"authentication.kubernetes.io/credential-id": ("X509SHA256=12ab",)}


def test_account_token_authenticates_the_account(world: World):
    user = world.ask(world.token())
    assert user.name == "system:serviceaccount:a:robot"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated")
    assert user.uid == "account-uid"
    assert list(user.extra) == ["authentication.kubernetes.io/credential-id"]


def later(world: World) -> None:
    world.time += 1


@pytest.mark.parametrize(
    "end",
    [
        later,
        lambda world: world.store.delete(Key("", "serviceaccounts", "a", "robot")),
        lambda world: world.store.delete(Key("", "pods", "a", "p")),
    ],
    ids=["time", "account", "pod"],
)
def test_pod_token_is_valid_until_its_time_its_account_or_its_pod_ends(
    world: World, end: Callable[[World], object]
):
    world.store.create(Key("", "pods", "a", "p"), POD)
    pod = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    token = world.token(boundObjectRef=pod, expirationSeconds=600)
    world.time += 599
    assert world.ask(token).extra["authentication.kubernetes.io/pod-name"] == ("p",)
    end(world)
    with pytest.raises(StatusError):
        world.ask(token)


def test_token_request_answer_has_the_granted_audience_and_lifetime(world: World):
    answer = world.tokens.issue(ACCOUNT, {"kind": "TokenRequest"})
    expires = datetime.datetime.fromtimestamp(world.time + 3600, datetime.UTC)
    assert answer["spec"] == {"audiences": [AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": None}
    assert answer["status"]["expirationTimestamp"] == expires.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_token_with_an_excessive_duration_is_refused(world: World):
    with pytest.raises(StatusError) as caught:
        world.token(expirationSeconds=4294967297)
    assert caught.value.message == (
        'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: '
        "4294967297: may not specify a duration larger than 2^32 seconds"
    )


def test_user_with_the_right_impersonates_another_user_or_account(world: World):
    user = world.ask("secret", impersonate_user="ann", impersonate_group="one\ntwo", impersonate_extra_x="y")
    assert user == User("ann", ("one", "two", "system:authenticated"), "", {"x": ("y",)})
    account = world.ask("secret", impersonate_user="system:serviceaccount:a:robot")
    assert account.groups == ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated")


MAY_NOT = 'pods is forbidden: User "bob" cannot impersonate-on:{}:list resource "pods" in API group ""'
NOBODY = 'DefaultInfo{Name:"", UID:"", Groups:[]string{"x"}, Extra:map[string][]string(nil)}'


@pytest.mark.parametrize(
    ("headers", "code", "message"),
    [
        ({"impersonate_user": "ann"}, 403, f"{MAY_NOT.format('user-info')} at the cluster scope"),
        (
            {"impersonate_user": "system:serviceaccount:a:b"},
            403,
            f"{MAY_NOT.format('serviceaccount')} at the cluster scope",
        ),
        ({"impersonate_group": "x"}, 400, f"requested &user.{NOBODY} without impersonating a user name"),
    ],
)
def test_impersonation_is_refused_when_it_is_forbidden_or_malformed(
    world: World, headers: dict[str, str], code: int, message: str
):
    with pytest.raises(StatusError) as caught:
        world.ask("bobs", **headers)
    assert (caught.value.code, caught.value.message) == (code, message)


async def review(world: World, kind: str, spec: Object, **metadata: str) -> Object:
    obj: Object = {"kind": kind, "metadata": metadata, "spec": spec}
    return dict((await world.reviews.review(kind, obj, User("bob")))["status"])


async def test_token_review_names_the_error_of_an_invalid_token_or_audience(world: World):
    assert await review(world, "TokenReview", {"token": "nope"}) == {
        "user": {},
        "error": "invalid bearer token",
    }
    status = await review(world, "TokenReview", {"token": world.token(), "audiences": ["foo"]})
    assert status["error"] == (
        f'[invalid bearer token, token audiences ["{AUDIENCE}"] is invalid for the target audiences ["foo"]]'
    )


async def test_access_review_decides(world: World):
    attributes = {"verb": "get", "resource": "pods", "namespace": "x"}
    assert await review(world, "SelfSubjectAccessReview", {"resourceAttributes": attributes}) == {
        "allowed": False
    }
    spec = {"groups": ["system:masters"], "nonResourceAttributes": {"verb": "get", "path": "/x"}}
    assert await review(world, "SubjectAccessReview", spec) == {"allowed": True}


INVALID = '.authorization.k8s.io "" is invalid: spec.'
BOTH = "nonResourceAttributes or resourceAttributes"
GIVEN = 'Invalid value: {"Path":"/api","Verb":"get"}: cannot be specified'
PATH = {"nonResourceAttributes": {"verb": "get", "path": "/api"}}
ELSEWHERE = {"user": "bob", "resourceAttributes": {"namespace": "other"}}


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (
            "SubjectAccessReview",
            PATH,
            f'{INVALID}user: Invalid value: "": at least one of user or group must be specified',
        ),
        (
            "SubjectAccessReview",
            {"user": "bob"},
            f"{INVALID}resourceAttributes: Invalid value: null: exactly one of {BOTH} must be specified",
        ),
        (
            "SelfSubjectAccessReview",
            {**PATH, "resourceAttributes": {}},
            f"{INVALID}nonResourceAttributes: {GIVEN} in combination with resourceAttributes",
        ),
        ("SelfSubjectRulesReview", {}, "no namespace on request"),
        ("TokenReview", {"token": ""}, "token is required for TokenReview in authentication"),
        (
            "LocalSubjectAccessReview",
            ELSEWHERE,
            f'{INVALID}resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace',
        ),
    ],
)
async def test_reviews_that_make_no_sense_are_refused(world: World, kind: str, spec: Object, message: str):
    with pytest.raises(StatusError) as caught:
        await review(world, kind, spec, namespace="a")
    assert caught.value.message == message
