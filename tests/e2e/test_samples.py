"""The samples after `make deploy`: their pods, the webhooks and the metrics work."""

from __future__ import annotations

import json
import time
from urllib.parse import urlencode

import pytest

from tests.e2e.cluster import (
    CLIENT,
    KINDS,
    NAMESPACE,
    OUT,
    STORE,
    SYSTEM,
    CommandFailed,
    apply,
    condition,
    forwarded,
    get,
    in_cluster,
    kubectl,
    nodes,
    program,
    run,
    say,
    seconds_since,
    wait_for,
)
from tests.e2e.conftest import chromium
from tests.support.eventually import eventually
from tests.support.pets import ALPHA, BETA, alpha, beta

pytestmark = pytest.mark.usefixtures("samples")

SITE = "wordpress-sample"
USER, PASSWORD = "ann", "correct horse battery staple"
TITLE = "Hello from a real node"
PULLED_WITHIN = 300.0
"""Maximum seconds for the node to pull the images of the samples."""


def test_each_sample_reaches_its_expected_condition():
    began = time.monotonic()
    for kind, name, what, status in (
        ("mysrv", "mysrv-sample", "Ready", "True"),
        ("foo", "foo-01", "Happy", "False"),
        ("foo", "foo-02", "Happy", "False"),
        ("pet", "pet-sample1", "Ready", "True"),
        ("pet", "pet-sample2", "Ready", "True"),
        ("memcached", "memcached-sample", "Available", "True"),
        ("wordpress", SITE, "Available", "True"),
        ("wordpress", "wordpress-blog", "Available", "True"),
    ):
        wait_for(kind, name, what, status=status, within=PULLED_WITHIN)
        say(f"{kind} {name}: {what} is {status} after {seconds_since(began)}")
    assert get("mysrv", "mysrv-sample")["status"]["status"] == "Available"
    say(kubectl("get", KINDS))


def test_memcached_returns_a_stored_value_through_a_service_and_at_each_pod():
    kubectl("expose", "deployment", "memcached-sample", "--port=11211")
    stored = eventually(
        lambda: in_cluster("memcached", f"memcached-sample.{NAMESPACE}.svc", "greeting=hello")
    )
    assert stored == {"greeting": "hello"}
    pods = _memcached_pods()
    assert len(pods) == 3
    for name, address in pods.items():
        assert in_cluster("memcached", address, f"name={name}") == {"name": name}
    say(f"the Service and {len(pods)} pods return what was stored")


def _memcached_pods() -> dict[str, str]:
    """Return the address of each running Memcached pod by pod name."""
    pods = get("pods", "--selector=memcached_cr=memcached-sample")
    return {
        pod["metadata"]["name"]: pod["status"].get("podIP", "")
        for pod in pods
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def test_wordpress_keeps_a_post_when_its_database_pod_is_deleted():
    url = wait_for("wordpress", SITE)["status"]["url"]
    assert url == f"http://{SITE}.{NAMESPACE}.svc"
    _install_page_answers(url)
    installed = in_cluster("request", f"{url}/wp-admin/install.php?step=2", _installation())
    assert installed["status"] == 200, installed
    assert "wp-login.php" in installed["body"], installed["body"][-2000:]
    say("the installation, by HTTP POST, is done")
    post = in_cluster("publish", url, USER, PASSWORD, "A post that stays")
    page = f"{url}/?p={post}"
    assert "A post that stays" in _body(page)
    _show_in_chromium(page)

    (old,) = get("pods", f"--selector={_selector(f'{SITE}-mysql')}")
    kubectl("delete", "pod", old["metadata"]["name"])
    began = time.monotonic()
    eventually(
        lambda: (
            condition(get("wordpress", SITE), "Available")["status"] == "True"
            and "A post that stays" in _body(page)
        ),
        every=1,
    )
    (new,) = get("pods", f"--selector={_selector(f'{SITE}-mysql')}")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    say(f"MySQL's pod was deleted; the post is back after {seconds_since(began)}")


def _install_page_answers(url: str) -> None:
    port = get("wordpress", SITE)["status"]["nodePort"]
    addresses = [
        each["address"]
        for node in nodes()
        for each in node["status"]["addresses"]
        if each["type"] == "InternalIP"
    ]
    for base in (url, *(f"http://{address}:{port}" for address in addresses)):
        answer = in_cluster("request", f"{base}/wp-admin/install.php")
        assert answer["status"] == 200, f"{base}: {answer['status']} {answer['location']}"
        assert "WordPress" in answer["body"]
        say(f"{base}/wp-admin/install.php answers 200")


def _installation() -> str:
    fields = {
        "weblog_title": TITLE,
        "user_name": USER,
        "admin_password": PASSWORD,
        "admin_password2": PASSWORD,
    }
    return urlencode({**fields, "pw_weak": 1, "admin_email": "ann@example.com", "blog_public": 0})


def _body(url: str) -> str:
    answer = in_cluster("request", url)
    if answer["status"] == 301:  # the URL of a post contains its title
        answer = in_cluster("request", answer["location"])
    assert answer["status"] == 200, (
        f"{url} answers {answer['status']} {answer['location']}: {answer['body'][-500:]}"
    )
    body: str = answer["body"]
    return body


def _selector(deployment: str) -> str:
    labels = get("deployment", deployment)["spec"]["selector"]["matchLabels"]
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _show_in_chromium(url: str) -> None:
    """Open the site in a browser at the site's own URL, through a port that kubectl forwards."""
    host = url.split("/")[2]
    with (
        forwarded(f"service/{SITE}", 80) as port,
        chromium(f"--host-resolver-rules=MAP {host}:80 127.0.0.1:{port}") as page,
    ):
        page.goto(url, timeout=60_000)
        assert TITLE in page.title(), page.title()
        assert "A post that stays" in page.inner_text("body")
        page.screenshot(path=OUT / "wordpress.png")
    say(f"Chromium shows {url}: {(OUT / 'wordpress.png').relative_to(OUT.parent.parent)}")


def test_pet_operator_creates_updates_and_deletes_records_in_the_petstore():
    assert _records() == {("Thor", "dog", "2021-04-01"), ("Tron", "cat", "2020-06-25")}
    kubectl("patch", "pet", "pet-sample1", "--type=merge", '--patch={"spec":{"name":"Thorbert"}}')
    eventually(
        lambda: _records() == {("Thorbert", "dog", "2021-04-01"), ("Tron", "cat", "2020-06-25")}, every=0.5
    )
    kubectl("delete", "pet", "pet-sample2")
    assert _records() == {("Thorbert", "dog", "2021-04-01")}
    say("records follow their Pets: added, renamed, removed")
    kubectl("delete", "pods", "--selector=app.kubernetes.io/name=petstore", namespace=SYSTEM)
    kubectl("rollout", "status", STORE, "--timeout=120s", namespace=SYSTEM)
    assert _records() == {("Thorbert", "dog", "2021-04-01")}
    wait_for("pet", "pet-sample1", "StoreReachable")
    say("the record outlived the store's pod")


def _records() -> set[tuple[str, str, str]]:
    """Return name, type and birthday of the pets in the store, read through a port that kubectl forwards."""
    with forwarded("service/operator-manager-petstore", 6742, namespace=SYSTEM) as port:
        found = run(program("petstore"), "search", f"--address=127.0.0.1:{port}", "--output=json")
    pets = json.loads(found)
    return {(each["name"], each["type"], each["birthday"]) for each in pets}


def test_pet_webhooks_set_defaults_and_convert_versions_and_refuse_invalid_pets():
    apply(beta("rex", name=" Rex ", species="Dog"))
    assert get("pet", "rex")["spec"] == beta("rex", name="Rex", species="dog")["spec"]
    with pytest.raises(CommandFailed, match=r"spec\.birthday: .* must not be in the future"):
        apply(beta("unborn", birthday="2999-01-01"))
    say("defaulted: ' Rex ' and 'Dog'; refused: a birthday in 2999")
    apply(alpha("polly", species="bird", birthday="2021-03-31T23:30:00-01:00"))
    assert get(BETA, "polly")["spec"]["birthday"] == "2021-04-01"
    assert get(ALPHA, "rex")["spec"]["type"] == "dog"
    wait_for("pet", "polly", "Ready")


def test_metrics_endpoint_answers_403_to_an_account_without_the_metrics_reader_role():
    url = f"https://operator-manager-controller-manager-metrics-service.{SYSTEM}.svc:8443/metrics"
    assert in_cluster("request", url)["status"] == 401
    kubectl("create", "serviceaccount", CLIENT)
    role = "--clusterrole=operator-manager-metrics-reader"
    kubectl("create", "clusterrolebinding", CLIENT, role, f"--serviceaccount={NAMESPACE}:{CLIENT}")
    headers = [
        f"Authorization:Bearer {kubectl('create', 'token', name).strip()}" for name in ("default", CLIENT)
    ]
    forbidden, answer = (in_cluster("request", url, "", header) for header in headers)
    assert (forbidden["status"], answer["status"]) == (403, 200)
    assert 'controller_runtime_reconcile_total{controller="memcached",result="success"}' in answer["body"]
    say("metrics: 401 without a token, 403 without the right, 200 with both")
