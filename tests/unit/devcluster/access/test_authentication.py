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
BOUND = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}, "expirationSeconds": 600}


class World:
    """Store with a service account and its pod, and an authenticator for their tokens."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0
        self.store = Store()
        self.store.create(Key("", "serviceaccounts", "a", "robot"), ACCOUNT)
        self.store.create(Key("", "pods", "a", "p"), POD)
        self._tokens = self._issuer()
        self._authenticator = Authenticator(
            RbacAuthorizer(self.store), self._tokens, lambda _: Attributes(verb="list", resource="pods")
        )

    def _issuer(self) -> ServiceAccountTokens:
        return ServiceAccountTokens(self.store, Clock(lambda: self.time), random.Random(1))

    def authenticate(self, token: str) -> User:
        headers = {"authorization": f"Bearer {token}"}
        return self._authenticator.authenticate(ApiRequest(method="GET", path="/", headers=headers))

    def token(self, *, of_another_key: bool = False, **spec: Any) -> str:
        tokens = self._issuer() if of_another_key else self._tokens
        return str(tokens.issue(ACCOUNT, {"kind": "TokenRequest", "spec": spec})["status"]["token"])

    def pass_a_second(self) -> None:
        self.time += 1


@pytest.mark.parametrize("text", ["ä.ö.ü", None], ids=["not ASCII", "another key"])
def test_authenticator_refuses_a_token_that_the_server_has_not_issued(text: str | None):
    world = World()
    with pytest.raises(StatusError) as caught:
        world.authenticate(text or world.token(of_another_key=True))
    assert (caught.value.code, caught.value.message) == (401, "Unauthorized")


@pytest.mark.parametrize(
    "end",
    [
        World.pass_a_second,
        lambda world: world.store.delete(Key("", "serviceaccounts", "a", "robot")),
        lambda world: world.store.delete(Key("", "pods", "a", "p")),
    ],
    ids=["expired", "account deleted", "pod deleted"],
)
def test_authenticator_refuses_a_pod_token_when_expired_or_its_pod_or_account_is_deleted(
    end: Callable[[World], object],
):
    world = World()
    token = world.token(**BOUND)
    world.time += 599
    assert world.authenticate(token).extra["authentication.kubernetes.io/pod-name"] == ("p",)
    end(world)
    with pytest.raises(StatusError):
        world.authenticate(token)


def test_authenticator_refuses_a_node_token_but_accepts_a_pod_token_when_the_node_is_deleted():
    world = World()
    node = Key("", "nodes", "", "n")
    world.store.create(node, {"metadata": {"name": "n", "uid": "node-uid"}})
    of_pod = world.token(**BOUND)
    of_node = world.token(boundObjectRef={"apiVersion": "v1", "kind": "Node", "name": "n"})
    assert world.authenticate(of_node).extra["authentication.kubernetes.io/node-name"] == ("n",)
    world.store.delete(node)
    assert world.authenticate(of_pod).extra["authentication.kubernetes.io/node-uid"] == ("node-uid",)
    with pytest.raises(StatusError):
        world.authenticate(of_node)
