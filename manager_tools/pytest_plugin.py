"""Pytest options and fixtures for operators: `addopts = ["-p", "manager_tools.pytest_plugin"]`.

`--control-plane=envtest` runs the same tests on a real API server, which starts when the first test needs it
and serves the whole session. Fixtures for your own programs and clients give a namespace for a test, and
kubeconfigs of the administrator and of an account with only the operators' roles.

    def test_mine(cluster_kubeconfig, cluster_namespace, manager_kubeconfig):
        kubeconfig = manager_kubeconfig(MyOperator)
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devcluster.background import BackgroundCluster
from manager.operator import AnyOperator
from manager.util.yaml_text import yaml_documents
from manager_tools.codegen import roles
from manager_tools.envtest import Administrator, CannotStart, Envtest, install_account, kubeconfig_of
from manager_tools.testing import NeedsDevcluster, roles_of, use_control_plane

_PLANES = ("devcluster", "envtest")
_PLANE = pytest.StashKey[Envtest | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--control-plane` to pytest."""
    parser.getgroup("operator-manager").addoption(
        "--control-plane",
        choices=_PLANES,
        default="devcluster",
        help="control plane of `operated` and the fixtures: devcluster, in the test's process, or envtest, "
        "an etcd and a kube-apiserver of the folder in KUBEBUILDER_ASSETS",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Use the control plane that the option `--control-plane` names."""
    plane = None
    if config.getoption("--control-plane") == "envtest":
        try:
            plane = Envtest()
        except CannotStart as error:
            raise pytest.UsageError(f"--control-plane=envtest: {error}") from None
    config.stash[_PLANE] = plane
    use_control_plane(plane)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the control plane after the last test."""
    plane = config.stash.get(_PLANE, None)
    use_control_plane(None)
    if plane is not None:
        plane.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip a test that runs on a real API server and needs a feature that only devcluster has."""
    try:
        return (yield)
    except NeedsDevcluster as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Skip such a test also if one of its fixtures needs the feature."""
    return (yield from pytest_runtest_call())


@pytest.fixture(scope="session")
def cluster_kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield the path of the administrator's kubeconfig, for the whole session."""
    plane = request.config.stash[_PLANE]
    if plane is not None:
        plane.start()
        yield plane.kubeconfig_path
        return
    with BackgroundCluster(pod_ready_delay=0.0) as background:
        path = background.cluster.kubeconfig_path
        assert path is not None
        yield path


@pytest.fixture
def cluster_namespace(cluster_kubeconfig: Path) -> Iterator[str]:
    """Yield the name of a namespace for this test only."""
    administrator, name = _administrator(cluster_kubeconfig), f"test-{secrets.token_hex(4)}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    administrator.request("POST", "/api/v1/namespaces", namespace)
    yield name
    administrator.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def manager_kubeconfig(
    cluster_kubeconfig: Path, cluster_namespace: str, tmp_path: Path
) -> Callable[..., Path]:
    """Return a function that installs operators' roles, and returns the kubeconfig of their account."""
    administrator = _administrator(cluster_kubeconfig)

    def install(*operators: AnyOperator, program: str = "test") -> Path:
        """Install the roles; `program` is the program's name, and also the name of its Lease."""
        found = roles_of(operators, program)
        manifests = roles.installed(found, namespace=cluster_namespace, prefix=f"{cluster_namespace}-")
        token = install_account(administrator, manifests, *roles.account_of(manifests))
        path = tmp_path / "manager.kubeconfig"
        content = kubeconfig_of(administrator.server, administrator.authority, token)
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return install


def _administrator(kubeconfig: Path) -> Administrator:
    [content] = yaml_documents(kubeconfig.read_text(encoding="utf-8"))
    return Administrator(content)
