"""A real Prometheus with our ServiceMonitors, rules and dashboard: what it reads, and what it answers."""

from __future__ import annotations

import http
import json
import math
import re
import shutil
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support import ROOT
from tests.support.api_objects import object_path
from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy, Match
from tests.support.manager_process import ManagerProcess
from tests.support.manifests import MANAGER, Manifest, flags_of, manifests, the, write_rules
from tests.support.metrics import get
from tests.support.petstore_process import PetStoreProcess
from tests.support.ports import PortBlock
from tests.support.roles import ServiceAccount

DASHBOARD = json.loads((ROOT / "config" / "grafana" / "operator-manager.json").read_text())
# Grafana's values: all namespaces and controllers, and some pauses between two scrapes.
VARIABLES = {"$namespace": ".*", "$controller": ".*", "$__rate_interval": "1m"}
SHARDS = 4
Ask = Callable[[str], Any]
PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


@pytest.fixture
def petstore(tmp_path: Path) -> Iterator[PetStoreProcess]:
    with PetStoreProcess(tmp_path / "petstore", "--memory") as store:
        yield store


@pytest.fixture
def proxy(crds: ControlPlane, fault_proxy: Callable[[Path], FaultProxy]) -> FaultProxy:
    return fault_proxy(crds.kubeconfig)


@pytest.fixture
def start_manager(
    proxy: FaultProxy, namespace: str, petstore: PetStoreProcess, run_manager: RunManager
) -> Callable[[], ManagerProcess]:
    """Start a sharded manager with all operators and the Deployment's flags, in this namespace only."""
    deployed = [flag for flag in flags_of(the("Deployment", MANAGER)) if "-bind-address=" not in flag]
    own = (f"--namespaces={namespace}", f"--leader-election-namespace={namespace}", f"--shards={SHARDS}")
    environ = {"PETSTORE_ADDRESS": petstore.address}
    return lambda: run_manager(proxy.kubeconfig, *deployed, *own, environ=environ).wait_ready()


@pytest.fixture
def manager(start_manager: Callable[[], ManagerProcess]) -> ManagerProcess:
    return start_manager()


@pytest.fixture
def ask(
    crds: ControlPlane, namespace: str, manager: ManagerProcess, petstore: PetStoreProcess, tmp_path: Path
) -> Iterator[Ask]:
    """Run Prometheus; return a function that returns the data at a path of its API."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus on the PATH (Debian: apt install prometheus)")
    account = ServiceAccount(crds, namespace, "prometheus")
    account.may_read_metrics()
    token, file = tmp_path / "token", tmp_path / "prometheus.yml"
    token.write_text(account.token())
    write_rules(tmp_path / "rules.yml")
    addresses = {
        "controller-manager-metrics-monitor": manager.metrics_address,
        "petstore-metrics-monitor": petstore.metrics_address,
    }
    monitors = [each for each in manifests("prometheus") if each["kind"] == "ServiceMonitor"]
    configuration = {
        # A reading may take as long as the pause between two; a busy machine needs a while.
        "global": {"scrape_interval": "2s", "evaluation_interval": "1s"},
        "rule_files": [str(tmp_path / "rules.yml")],
        "scrape_configs": [
            scrape_configuration(each, addresses.pop(each["metadata"]["name"]), token) for each in monitors
        ],
    }
    assert not addresses
    file.write_text(json.dumps(configuration))
    with PortBlock(1) as ports:
        address = f"127.0.0.1:{ports[0]}"
        data = f"--storage.tsdb.path={tmp_path / 'data'}"
        command = [program, f"--config.file={file}", data, f"--web.listen-address={address}"]
        server = Daemon("prometheus", command, log=tmp_path / "prometheus.log")
        server.start()

        def data_of(path: str) -> Any:
            status, body = get(f"http://{address}/api/v1/{path}")
            assert status == http.HTTPStatus.OK, body
            return json.loads(body)["data"]

        yield data_of
        server.kill()
        print(server.output())  # noqa: T201 - shown with a failed test


def scrape_configuration(monitor: Manifest, address: str, token: Path) -> dict[str, Any]:
    """Scrape `address` as the endpoint of the Service that `monitor` selects, with the operator's labels."""
    (endpoint,) = monitor["spec"]["endpoints"]
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    services = [each for each in manifests() if each["kind"] == "Service"]
    (service,) = [each for each in services if selected <= each["metadata"]["labels"].items()]
    assert endpoint["port"] in {each["name"] for each in service["spec"]["ports"]}
    labels = {
        "job": service["metadata"]["labels"][monitor["spec"]["jobLabel"]],
        "namespace": service["metadata"]["namespace"],
        "service": service["metadata"]["name"],
        "pod": monitor["metadata"]["name"],
        "endpoint": endpoint["port"],
    }
    configuration = {
        "job_name": monitor["metadata"]["name"],
        "metrics_path": endpoint["path"],
        "scheme": endpoint["scheme"],
        "static_configs": [{"targets": [address], "labels": labels}],
    }
    if "bearerTokenFile" in endpoint:
        configuration["authorization"] = {"credentials_file": str(token)}
    if "tlsConfig" in endpoint:
        assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
        configuration["tls_config"] = {"insecure_skip_verify": True}
    return configuration


@pytest.mark.timeout(240)
def test_targets_are_read_rules_are_evaluated_and_every_query_of_the_dashboard_has_an_answer(
    crds: ControlPlane,
    namespace: str,
    proxy: FaultProxy,
    start_manager: Callable[[], ManagerProcess],
    ask: Ask,
):
    eventually(lambda: jobs_that_are_up(ask) == {"operator-manager", "petstore"})

    # Nothing is wrong, whatever is looked at.
    crds.kubectl(f"--namespace={namespace}", "apply", "--kustomize", ROOT / "config" / "samples")
    eventually(lambda: rules_are_evaluated(ask))

    # The panels need events first: shards that move and return, work, watches that end, a failed request.
    other = start_manager()
    eventually(lambda: has_shards(ask, SHARDS // 2))
    assert other.stop() == 0
    eventually(lambda: has_shards(ask, SHARDS))
    waiting = dict(dashboard_queries())
    proxy.answer(500, match=Match("POST", "/deployments$"), times=1)
    things = busy(crds, namespace)

    def answered() -> None:
        next(things)
        proxy.end_watches()
        for query, legends in list(waiting.items()):
            if shows_something(ask, query, legends):
                del waiting[query]
        assert not waiting

    eventually(answered, every=0.5)
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            assert values_of(ask, variable["definition"])


def jobs_that_are_up(ask: Ask) -> set[str]:
    found = ask("targets")
    assert not found["droppedTargets"]
    for target in found["activeTargets"]:
        assert (target["health"], target["lastError"]) == ("up", "")
    return {target["labels"]["job"] for target in found["activeTargets"]}


def has_shards(ask: Ask, count: int) -> None:
    """Assert that the scraped manager holds `count` shards."""
    [each] = answers(ask, "sum(leader_election_master_status)")
    assert float(each["value"][1]) == count


def rules_are_evaluated(ask: Ask) -> None:
    """Every rule has a result, and no alert fires; a busy machine may well make one pending."""
    groups = ask("rules")["groups"]
    assert {group["name"] for group in groups} == {"operator-manager", "petstore"}
    for rule in (rule for group in groups for rule in group["rules"]):
        assert rule["health"] == "ok", rule
        assert rule["state"] != "firing", rule


def dashboard_queries() -> Iterator[tuple[str, set[str]]]:
    """Every query as Grafana asks it, and the labels that its legend shows."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            yield query, set(PLACEHOLDER.findall(target["legendFormat"]))


def shows_something(ask: Ask, query: str, legends: set[str]) -> bool:
    """Return whether there is a point to draw; and then every line has its legend."""
    series = answers(ask, query)
    for each in series:
        assert legends <= each["metric"].keys(), query
    return any(math.isfinite(float(each["value"][1])) for each in series)


def answers(ask: Ask, query: str) -> list[dict[str, Any]]:
    series: list[dict[str, Any]] = ask(f"query?{urllib.parse.urlencode({'query': query})}")["result"]
    return series


def values_of(ask: Ask, definition: str) -> list[str]:
    """Return the values that a dashboard variable offers."""
    parts = LABEL_VALUES.fullmatch(definition)
    assert parts is not None
    query = urllib.parse.urlencode({"match[]": parts[1]})
    found: list[str] = ask(f"label/{parts[2]}/values?{query}")
    return found


def busy(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Change samples, a step at a time and without end, so that there is work to measure."""
    changes: list[tuple[tuple[str, str], str, list[dict[str, Any]]]] = [
        (("cache.example.com/v1", "memcacheds"), "memcached-sample", [{"size": 1}, {"size": 2}]),
        (
            ("petstore.example.com/v1beta1", "pets"),
            "pet-sample1",
            [{"birthday": "2021-04-01"}, {"birthday": "2022-04-01"}],
        ),
    ]
    while True:
        for step in range(2):
            for (api, plural), name, specs in changes:
                plane.api.patch(object_path(api, namespace, plural, name), {"spec": specs[step]})
            yield
