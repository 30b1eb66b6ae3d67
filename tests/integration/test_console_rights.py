"""Rights of console users, compared with the decisions of the API server."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.conftest import RunManager
from tests.support.certificates import trusting
from tests.support.control_plane import ControlPlane, Feature
from tests.support.eventually import eventually
from tests.support.foos import foo, foo_path
from tests.support.memcacheds import memcached, memcached_path
from tests.support.ports import PortBlock
from tests.support.roles import LEADER_ELECTION, MANAGER, Roles, is_allowed

METRICS = ("metrics_auth_role.yaml", "metrics_auth_role_binding.yaml")
READING = "../console/role.yaml"
NAME = "xk-lonely"
FOOS = "foos.tutorial.my.domain"


class Answer(NamedTuple):
    status: int
    text: str
    headers: http.client.HTTPMessage


class Console:
    def __init__(self, plane: ControlPlane, namespace: str, port: int) -> None:
        self.plane, self.namespace, self.port = plane, namespace, port
        self.page = f"/objects/{FOOS}/{namespace}/{NAME}"
        self.told = f"/api{self.page}"

    def ask(self, path: str, token: str = "", method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=trusting(None))
        own = {"Origin": f"https://127.0.0.1:{self.port}"} if method == "POST" else {}
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request(method, path, headers={**own, **bearer, **headers})
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode(), answer.headers)
        finally:
            connection.close()

    def account(self, name: str, *, sees: bool = False, verbs: str = "") -> str:
        """Create a service account with these rights, and return its token."""
        plane, namespace = self.plane, self.namespace
        plane.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        user = f"system:serviceaccount:{namespace}:{name}"
        who, role = f"--serviceaccount={namespace}:{name}", f"{namespace}-{name}"
        if sees:
            plane.kubectl("create", "clusterrole", role, "--verb=get", "--non-resource-url=/console")
            plane.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", who)
            page = {"path": "/console", "verb": "get"}
            eventually(lambda: is_allowed(plane, user, nonResourceAttributes=page), every=0.02)
        if verbs:
            scope = f"--namespace={namespace}"
            plane.kubectl(scope, "create", "role", name, f"--verb={verbs}", f"--resource={FOOS}")
            plane.kubectl(scope, "create", "rolebinding", name, f"--role={name}", who)
            right = {"namespace": namespace, "group": "tutorial.my.domain", "resource": "foos", "verb": verbs}
            right["verb"] = verbs.rpartition(",")[2]
            eventually(lambda: is_allowed(plane, user, resourceAttributes=right), every=0.02)
        return plane.token_of(namespace, name)


@pytest.fixture
def start(crds: ControlPlane, namespace: str, run_manager: RunManager) -> Iterator[Callable[..., Console]]:
    """Yield a function that starts a manager with a console; its arguments are additional RBAC files."""
    with PortBlock(1) as ports:

        def started(*also: str, controllers: str = "foo") -> Console:
            user = f"{namespace}-manager"
            kubeconfig = crds.user_kubeconfig(user)
            Roles(crds, user, namespace).grant(*MANAGER, *METRICS, *LEADER_ELECTION, *also)
            flags = (
                f"--namespaces={namespace}",
                f"--controllers={controllers}",
                "--leader-elect",
                f"--leader-election-namespace={namespace}",
                "--metrics-secure",
                f"--console-bind-address=:{ports[0]}",
            )
            run_manager(kubeconfig, *flags).wait_ready()
            return Console(crds, namespace, ports[0])

        yield started


@pytest.fixture
def console(start: Callable[..., Console], crds: ControlPlane, namespace: str) -> Console:
    """Start a manager with a console, and create a Foo that is not ready."""
    crds.api.create(foo_path(namespace), foo(NAME, "jack"))
    console = start()
    eventually(lambda: crds.api.get(foo_path(namespace, NAME))["status"]["conditions"])
    return console


@pytest.mark.contract
def test_console_grants_a_token_exactly_the_rights_that_rbac_grants_to_its_account(console: Console):
    tokens = {
        "nobody": "",
        "forger": "eyJhbGciOiJub25lIn0.e30.",
        "stranger": console.account("stranger"),
        "guest": console.account("guest", sees=True),
        "reader": console.account("reader", sees=True, verbs="get"),
        "actor": console.account("actor", sees=True, verbs="get,update"),
    }
    # The same request as `operator-manager console` sends; the token has only the console audience.
    scope, audience = f"--namespace={console.namespace}", "--audience=operator-manager-console"
    tokens["actor"] = console.plane.kubectl(scope, "create", "token", "actor", audience).stdout.strip()
    refused = {"nobody": 401, "forger": 401, "stranger": 403}
    may_see = refused | {"guest": 200, "reader": 200, "actor": 200}
    may_read = refused | {"guest": 403, "reader": 200, "actor": 200}
    may_act = refused | {"guest": 403, "reader": 403, "actor": 303}
    posts = [f"{console.page}/{action}" for action in ("reconcile", "pause", "resume")]
    expected = {
        ("GET", "/"): may_see,
        ("GET", "/search"): may_see,
        ("GET", console.page): may_read,
        ("GET", f"{console.page}?part=1"): may_read,
        ("GET", console.told): may_read,
        **dict.fromkeys((("POST", path) for path in posts), may_act),
        # Actions on all objects of a kind need the right to update that kind in every namespace.
        ("POST", f"/controllers/{FOOS}/pause"): refused | {"guest": 403, "reader": 403, "actor": 403},
    }
    for (method, path), answers in expected.items():
        for who, status in answers.items():
            answer = console.ask(path, tokens[who], method)
            assert (who, method, path, answer.status) == (who, method, path, status)
            if status in (401, 403):
                assert NAME not in answer.text
                assert NAME not in str(answer.headers)
            if status == 401:
                assert answer.headers["WWW-Authenticate"] == "Bearer"
    # A guest may open the search page, which then shows no object.
    everywhere = console.ask("/search", tokens["reader"]).text
    assert f"Enter a namespace in which you may: {FOOS}." in everywhere
    assert NAME not in everywhere
    here = f"/search?namespace={console.namespace}"
    assert NAME not in console.ask(here, tokens["guest"]).text
    assert NAME in console.ask(here, tokens["reader"]).text
    assert "There is no pod named jack" in console.ask(console.page, tokens["reader"]).text
    assert json.loads(console.ask(console.told, tokens["reader"]).text)["controllers"]
    plain = http.client.HTTPConnection("127.0.0.1", console.port, timeout=60)
    plain.request("GET", "/", headers={"Authorization": f"Bearer {tokens['reader']}"})
    assert plain.getresponse().read().startswith(b"this port is for HTTPS")
    plain.close()
    elsewhere = console.ask(posts[0], tokens["actor"], "POST", Origin="https://evil.example.com")
    assert elsewhere.status == 403

    events = f"/api/v1/namespaces/{console.namespace}/events"
    wanted = f"system:serviceaccount:{console.namespace}:actor paused it in the console of foo"

    def is_noted() -> None:
        assert wanted in [each["message"] for each in console.plane.api.get(events)["items"]]

    eventually(is_noted)


@pytest.mark.contract
def test_console_overlay_grants_the_rights_to_show_the_pods_of_an_object(
    start: Callable[..., Console], crds: ControlPlane, namespace: str
):
    crds.require(Feature.READY_PODS)
    console = start(READING, controllers="memcached")
    crds.api.create(memcached_path(namespace), memcached("web", 1))
    page = f"/objects/memcacheds.cache.example.com/{namespace}/web"
    token = console.account("viewer", sees=True)
    who = f"--serviceaccount={namespace}:viewer"
    scope = f"--namespace={namespace}"
    crds.kubectl(scope, "create", "rolebinding", "view", "--clusterrole=cluster-admin", who)

    def is_shown() -> None:
        answer = console.ask(page, token)
        assert '<span class="quiet">Pod</span>' in answer.text
        assert "Not known" not in answer.text

    eventually(is_shown, every=0.5)
