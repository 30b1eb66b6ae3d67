"""Shell sessions of the documentation: the commands print the documented output."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import RunManager, StartControlPlane
from tests.support.api_objects import storage_classes
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import wait_served
from tests.support.eventually import eventually
from tests.support.example_operator import PAGE, WEBHOOKS_PAGE, ExampleOperator
from tests.support.kubeconfig import Credentials
from tests.support.markdown import Page
from tests.support.terminal import WALKED, WALKED_ALONE, Command, Terminal, commands
from tests.support.webhook_manager import webhook_manager

OURS = "memcacheds,foos,pets,wordpresses,mysrvs"


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> Iterator[ControlPlane]:
    """Start a control plane without objects of the product; each test removes its objects."""
    plane = module_control_plane().require(Feature.WORKLOADS, Feature.READY_PODS)
    with storage_classes(plane):
        yield plane


def follow(page: Path, terminal: Terminal) -> None:
    """Write the programs of a page into the terminal's folder, and run the page's commands in order."""
    for block in Page(page).blocks():
        if block.language == "python" and (program := re.match(r"# (\w+\.py)\n", block.text)):
            terminal.write(program[1], block.text)
        elif block.language == "console":
            for command in commands(block):
                terminal.follow(command)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "page", [page if page == "README.md" else pytest.param(page, marks=pytest.mark.whole) for page in WALKED]
)
def test_documented_commands_print_the_documented_output(
    page: str, plane: ControlPlane, run_manager: RunManager, tmp_path: Path
):
    with Terminal(tmp_path / "terminal", plane) as terminal:
        terminal.run(".venv/bin/operator-manager crds | kubectl apply --server-side --force-conflicts -f -")
        wait_served(plane)
        manager = run_manager(plane.kubeconfig, f"--petstore-address={terminal.petstore_address}")
        manager.wait_ready()
        follow(Path(page), terminal)
        terminal.run("kubectl delete crd greetings.hello.example.com --ignore-not-found")
        # Pets need the store that the page has started.
        terminal.run(f"kubectl delete {OURS} --all")
        terminal.run(".venv/bin/operator-manager crds | kubectl delete -f -")
        manager.stop()


@pytest.mark.parametrize("page", WALKED_ALONE)
def test_documented_commands_print_the_documented_output_without_a_cluster(page: str, tmp_path: Path):
    with Terminal(tmp_path / "terminal") as terminal:
        follow(Path(page), terminal)


def remove_greetings(plane: ControlPlane, definitions: str) -> None:
    """Delete the CRD and the ConfigMaps of Greetings, because garbage collection may miss some ConfigMaps."""
    plane.kubectl("delete", "-f", "-", stdin=definitions)
    plane.kubectl(
        "delete", "configmaps", "--field-selector=metadata.name!=kube-root-ca.crt", "--ignore-not-found"
    )


@pytest.mark.whole
@pytest.mark.timeout(300)
def test_documented_operator_gives_the_output_shown_on_its_page(
    plane: ControlPlane, run_manager: RunManager, tmp_path: Path
):
    example = ExampleOperator(tmp_path / "example")
    assert "config/crd/bases/hello.example.com_greetings.yaml" in example.run("controllers.main", "generate")
    assert "--greeting-separator VALUE" in example.run("controllers.main", "run", "--help")
    definitions = example.run("controllers.main", "crds")
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=definitions)
    wait_served(plane)
    manager = run_manager(
        plane.kubeconfig, "--controllers=greeting", environ=example.environ, program=example.program
    )
    manager.wait_ready()
    with Terminal(tmp_path / "terminal", plane, config=example.folder / "config") as terminal:
        follow(PAGE, terminal)
    assert not [line for line in manager.logs() if line.get("level") == "error"]
    manager.stop()
    remove_greetings(plane, definitions)


@pytest.mark.whole
@pytest.mark.timeout(600)
def test_documented_webhooks_answer_reviews(plane: ControlPlane, tmp_path: Path):
    blocks = list(Page(WEBHOOKS_PAGE).blocks())
    second = next(number for number, block in enumerate(blocks) if "apis/hello/v2" in block.text)
    # First the blocks with one API version; then all blocks, and the commands of the other blocks.
    for number, (there, new) in enumerate([(second, blocks[:second]), (len(blocks), blocks[second:])]):
        folder = tmp_path / f"part-{number}"
        example = ExampleOperator(folder / "example", blocks[:there])
        assert "config/webhook/manifests.yaml" in example.run("controllers.main", "generate")
        definitions = example.run("controllers.main", "crds")
        plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=definitions)
        flags = ("--controllers=greeting",)
        with (
            webhook_manager(
                plane, folder / "manager", *flags, environ=example.environ, program=example.program
            ) as manager,
            Terminal(folder / "terminal", plane, config=example.folder / "config") as terminal,
        ):
            wait_served(plane)
            for block in new:
                if block.language == "console":
                    for command in commands(block):
                        terminal.follow(command)
            assert not [line for line in manager.logs() if line.get("level") == "error"]
    with Terminal(tmp_path / "terminal", plane) as terminal:
        # The configurations outlive the manager, so the page says how to remove them.
        for block in Page(Path("docs/running-webhooks.md")).blocks():
            for command in commands(block) if block.language == "sh" else ():
                if command.text.startswith("kubectl delete"):
                    terminal.run(command.text)
        # Apply the CRDs again: the conversion then refers to a Service, not to the URL of a stopped manager.
        terminal.run(".venv/bin/operator-manager crds | kubectl apply --server-side --force-conflicts -f -")
        definitions = example.run("controllers.main", "crds")
        terminal.run("kubectl delete pets,greetings.v1.hello.example.com --all")
        remove_greetings(plane, definitions)


def test_petstore_starts_from_a_backup_made_as_the_operations_page_describes(tmp_path: Path):
    with Terminal(tmp_path / "one") as terminal:
        follow(Path("docs/operations.md"), terminal)
        copy = (tmp_path / "one" / "backup.db").rename(tmp_path / "backup.db")
    with Terminal(tmp_path / "two") as terminal:
        terminal.follow(Command("", f"petstore serve --data {copy} &", ("...", "petstore: ready; ...")))
        assert "Thor" in terminal.run("petstore search")


@pytest.mark.contract
def test_flow_schema_of_operations_page_applies_to_lease_requests(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
):
    plane = control_plane.require(Feature.PRIORITIES)
    (schema,) = (
        found
        for block in Page(Path("docs/operations.md")).blocks()
        if block.language == "yaml" and (found := yaml.safe_load(block.text)).get("kind") == "FlowSchema"
    )
    (rule,) = schema["spec"]["rules"]
    # The name of the deployed account is too long for a certificate.
    rule["subjects"][0]["serviceAccount"] = {"namespace": namespace, "name": "m"}
    rule["resourceRules"][0]["namespaces"] = [namespace]
    collection = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    uid = plane.api.create(collection, schema)["metadata"]["uid"]
    try:
        user = f"system:serviceaccount:{namespace}:m"
        manager = Credentials.read(plane.user_kubeconfig(user, "system:serviceaccounts"))
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/x"

        def schema_of(path: str) -> str | None:
            headers = {"Authorization": f"Bearer {manager.token}"} if manager.token else {}
            request = urllib.request.Request(f"{manager.server}{path}", headers=headers)
            context = manager.ssl_context(tmp_path)
            with pytest.raises(urllib.error.HTTPError) as answered:
                urllib.request.urlopen(request, context=context, timeout=30)
            with answered.value as answer:
                return answer.headers["X-Kubernetes-PF-FlowSchema-UID"]

        eventually(lambda: schema_of(leases) == uid)
        assert schema_of("/api/v1/secrets") not in {uid, None}
    finally:
        plane.api.request("DELETE", f"{collection}/{schema['metadata']['name']}")
