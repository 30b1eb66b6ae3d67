from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from devcluster.access.authentication import Authenticator
from devcluster.access.rbac import Attributes, RbacAuthorizer
from devcluster.access.tokens import ServiceAccountTokens
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
        self.store.create(Key("", "serviceaccounts", "a", "robot"), ACCOUNT)

    def ask(self, token: str = "") -> User:
        given = {"authorization": f"Bearer {token}"} if token else {}
        return self.authenticator.authenticate(ApiRequest(method="GET", path="/", headers=given))

    def token(self, **spec: Any) -> str:
        answer = self.tokens.issue(ACCOUNT, {"kind": "TokenRequest", "spec": spec})
        return str(answer["status"]["token"])


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    "token",
    [
        "ä.ö.ü",
        lambda world: ServiceAccountTokens(world.store, world.clock, random.Random(1)).issue(ACCOUNT, {})[
            "status"
        ]["token"],
    ],
    ids=["not ASCII", "another key"],
)
def test_token_is_refused_when_it_was_not_issued_by_the_server(world: World, token: Any):
    with pytest.raises(StatusError) as caught:
        world.ask(token(world) if callable(token) else token)
    assert (caught.value.code, caught.value.message) == (401, "Unauthorized")


def test_certificate_names_user_and_groups_and_is_identified_by_its_fingerprint(world: World):
    subject = {"CN": ["ann"], "O": ["one", "two"], "X509SHA256": ["12ab"]}
    user = world.authenticator.authenticate(ApiRequest(method="GET", path="/", client_certificate=subject))
    assert (user.name, user.groups) == ("ann", ("one", "two", "system:authenticated"))
    assert user.extra == {"authentication.kubernetes.io/credential-id": ("X509SHA256=12ab",)}


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
def test_pod_token_is_refused_when_it_expires_or_its_account_or_pod_is_deleted(
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
