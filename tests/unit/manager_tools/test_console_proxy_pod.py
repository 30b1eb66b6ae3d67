"""Choice of the pod, the trusted certificate and the token by the command `console`."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from controllers.main import PROGRAM
from manager.kube.errors import ConfigError, Forbidden, KubeError
from manager.kube.transport import Transport
from manager_tools.console_proxy import AccountToken, Installed
from tests.support.scripted_wire import LostAfter, Reply, ScriptedWire, Step, Unreached

pytestmark = pytest.mark.virtual_time
PLACE = Installed(PROGRAM, "zoo", "operator-manager-")
PODS = "/api/v1/namespaces/zoo/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/zoo/leases/operator-manager"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/"
VALIDATING = (
    f"{CONFIGURATIONS}validatingwebhookconfigurations/operator-manager-validating-webhook-configuration"
)
MUTATING = f"{CONFIGURATIONS}mutatingwebhookconfigurations/operator-manager-mutating-webhook-configuration"
TOKEN = "/api/v1/namespaces/zoo/serviceaccounts/ann/token"
ACCOUNT = "operator-manager-controller-manager"
LONG = f"manager-{'x' * 70}"
HYPHENATED, DOTTED = f"{'a' * 62}-bcdef", f"{'b' * 62}.c"


def pod(name: str, account: str = ACCOUNT, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    metadata = {"name": name, **metadata}
    return {"metadata": metadata, "spec": {"serviceAccountName": account}, "status": {"phase": phase}}


THERE = (
    pod("evil", "default"),
    pod("evil-too", f"{ACCOUNT}s"),
    pod("ended", phase="Failed"),
    pod("going", deletionTimestamp="2031-01-01T00:00:00Z"),
    *(pod("\x1b]0;owned\x07"), pod("--as=admin")),  # names that an API server would not accept
    pod("manager-b"),
    pod("manager-a", f"{ACCOUNT}-foo"),
    *(pod(LONG), pod(HYPHENATED), pod(DOTTED)),
)


def there(wire: ScriptedWire, holder: str | None, *pods: dict[str, Any]) -> None:
    wire.on("GET", PODS, Reply.json({"kind": "PodList", "items": list(pods)}))
    lease = Reply.json({"metadata": {"name": "operator-manager"}, "spec": {"holderIdentity": holder}})
    wire.on("GET", LEASE, lease)


@pytest.mark.parametrize(
    ("holder", "wanted", "expected"),
    [
        ("manager-b_1", None, "manager-b"),
        (f"{LONG[:63]}_1", None, LONG),
        # The kubelet also removes a hyphen or a dot at the end of a shortened name.
        (f"{'a' * 62}_1", None, HYPHENATED),
        (f"{'b' * 62}_1", None, DOTTED),
        ("", None, HYPHENATED),
        (None, None, HYPHENATED),
        ("manager-b_1", "manager-a", "manager-a"),
        ("evil_1", "manager-a", "manager-a"),
    ],
)
async def test_pod_lookup_prefers_the_requested_pod_then_the_leader_then_any_manager_pod(
    wire: ScriptedWire, transport: Transport, holder: str | None, wanted: str | None, expected: str
):
    there(wire, holder, *THERE)
    assert await PLACE.pod(transport, wanted) == expected
    [asked] = wire.sent("GET", PODS)
    assert asked.query == {"labelSelector": "app.kubernetes.io/name=operator-manager"}


@pytest.mark.parametrize(
    "holder", ["evil_1", "evil-too_1", "ended_1", "going_1", "elsewhere_1", "../x_1", "\x1b[2J\nevil_1"]
)
async def test_pod_lookup_refuses_a_lease_holder_that_is_no_manager_pod(
    wire: ScriptedWire, transport: Transport, holder: str
):
    there(wire, holder, *THERE)
    told = "is no pod of the manager; --pod may be one of: .*manager-a, manager-b"
    for wanted in (None, holder.removesuffix("_1")):
        with pytest.raises(ConfigError, match=told) as error:
            await PLACE.pod(transport, wanted)
        assert str(error.value).isprintable()


async def test_pod_lookup_raises_when_no_manager_is_found_or_access_is_forbidden(
    wire: ScriptedWire, transport: Transport
):
    there(wire, "evil_1", THERE[0])
    with pytest.raises(ConfigError, match="--namespace and --name-prefix say where the manager is"):
        await PLACE.pod(transport)
    wire.on("GET", LEASE, Reply.status(403, "Forbidden"))
    wire.on("GET", PODS, Reply.status(403, "Forbidden"))
    with pytest.raises(Forbidden):
        await PLACE.pod(transport)


def configuration(namespace: str, bundle: bytes) -> Reply:
    service = {"name": "operator-manager-webhook-service", "namespace": namespace}
    client = {"service": service, "caBundle": base64.b64encode(bundle).decode()}
    clients = ({"url": "https://127.0.0.1"}, client)
    return Reply.json({"webhooks": [{"clientConfig": each} for each in clients]})


@pytest.mark.parametrize("validating", [Reply.status(404, "NotFound"), Reply.status(403, "Forbidden")])
async def test_trust_lookup_reads_the_mutating_configuration_when_it_cannot_read_the_validating_one(
    wire: ScriptedWire, transport: Transport, validating: Reply
):
    wire.on("GET", VALIDATING, validating)
    wire.on("GET", MUTATING, configuration("zoo", b"PEM"))
    assert await PLACE.trust(transport) == ("operator-manager-webhook-service.zoo.svc", b"PEM")


@pytest.mark.parametrize(
    "found",
    [
        configuration("other", b"PEM"),
        configuration("zoo", b""),
        Reply.json({}),
        Reply.json({"webhooks": [1]}),
        Reply.json({"webhooks": [{"clientConfig": 1}]}),
        Reply.json({"webhooks": [{"clientConfig": {"service": [], "caBundle": "UEVN"}}]}),
        Reply.json({"webhooks": [{"clientConfig": {"service": {"namespace": "zoo"}, "caBundle": "UEVN"}}]}),
        Reply.status(403, "Forbidden"),
    ],
)
async def test_trust_lookup_raises_when_no_webhook_configuration_is_usable(
    wire: ScriptedWire, transport: Transport, found: Reply
):
    wire.on("GET", VALIDATING, found)
    wire.on("GET", MUTATING, Reply.status(404, "NotFound"))
    with pytest.raises(KubeError):
        await PLACE.trust(transport)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Reply.status(403, "Forbidden"), "cannot be had: "),
        (Unreached(), "cannot be had: "),
        (LostAfter(), "cannot be had: "),
        (Reply.json({"status": {"token": "a\nb"}}), "the token must be one line"),
        *(
            (Reply.json({"status": status}), "cannot be had: .*not a TokenRequest")
            for status in ([1], {}, {"token": None}, None)
        ),
    ],
)
async def test_account_token_for_the_console_stays_in_use_when_a_renewal_fails_but_a_first_failure_raises(
    wire: ScriptedWire, transport: Transport, answer: Step, told: str
):
    wire.on("POST", TOKEN, answer)
    tokens = AccountToken(transport, "zoo", "ann", "operator-manager-console")
    with pytest.raises(ConfigError, match=f"^a token of the service account zoo/ann:? {told}"):
        await tokens.current()
    wire.on("POST", TOKEN, Reply.json({"status": {"token": "t"}}, status=201))
    await tokens.current()
    wire.on("POST", TOKEN, answer)
    await asyncio.sleep(2400)
    assert (await tokens.current()).header == "Bearer t"
    for asked in wire.sent("POST", TOKEN):
        assert asked.json()["spec"] == {"audiences": ["operator-manager-console"], "expirationSeconds": 3600}
