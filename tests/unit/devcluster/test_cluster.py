from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from devcluster import DevCluster
from devcluster.background import BackgroundCluster
from devcluster.local_files import ForeignFile
from tests.support.kubeconfig import Credentials

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def get(kubeconfig: dict[str, Any], path: str, directory: Path) -> tuple[int, Any]:
    """Send a GET request with the kubeconfig's credentials; return the status and the decoded body."""
    (directory / "kubeconfig").write_text(json.dumps(kubeconfig))
    credentials = Credentials.read(directory / "kubeconfig")
    headers = {"Authorization": f"Bearer {credentials.token}"} if credentials.token else {}
    context = credentials.ssl_context(directory)
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(credentials.server + path, ssl=context) as response,
    ):
        return response.status, await response.json()


@pytest.mark.parametrize("certificate", [False, True], ids=["token", "certificate"])
async def test_user_kubeconfig_authenticates_a_user_without_rights(certificate: bool, tmp_path: Path):
    async with DevCluster(controllers=False) as cluster:
        kubeconfig = cluster.user_kubeconfig("bob", ("team",), certificate=certificate)
        status, answer = await get(kubeconfig, "/api/v1/pods", tmp_path)
    assert status == 403
    assert answer["message"].startswith('pods is forbidden: User "bob" cannot list resource "pods"')


async def test_temporary_cluster_accepts_its_kubeconfig_and_deletes_its_files_at_the_end(tmp_path: Path):
    async with DevCluster(controllers=False) as cluster:
        status, namespaces = await get(cluster.kubeconfig, "/api/v1/namespaces", tmp_path)
        path = cluster.kubeconfig_path
        assert path.stat().st_mode & 0o777 == 0o600
    assert status == 200
    assert "default" in [each["metadata"]["name"] for each in namespaces["items"]]
    assert not path.parent.exists()


async def test_cluster_with_a_data_file_keeps_objects_and_kubeconfig_after_a_restart(tmp_path: Path):
    data = tmp_path / "cluster.db"
    async with DevCluster(data=data, controllers=False) as first:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}
        await first.client.create("configmaps", "default", config_map)
        kubeconfig = first.kubeconfig
    async with DevCluster(data=data, port=first.port, controllers=False) as second:
        assert second.kubeconfig == kubeconfig
        status, _ = await get(kubeconfig, f"{CONFIG_MAPS}/kept", tmp_path)
    assert status == 200


def test_background_cluster_start_fails_and_keeps_the_file_when_another_program_wrote_its_kubeconfig(
    tmp_path: Path,
):
    theirs = tmp_path / "config"
    theirs.write_text("apiVersion: v1\n")
    with pytest.raises(ForeignFile), BackgroundCluster(kubeconfig=theirs):
        pass
    assert theirs.read_text() == "apiVersion: v1\n"


async def test_cluster_overwrites_its_own_kubeconfig(tmp_path: Path):
    path = tmp_path / "config"
    for _ in range(2):
        async with DevCluster(kubeconfig=path, controllers=False) as cluster:
            written = json.loads(path.read_text().partition("\n")[2])
            assert written == cluster.kubeconfig


async def test_cluster_start_raises_os_error_when_its_port_is_occupied():
    async with DevCluster(controllers=False) as first:
        with pytest.raises(OSError, match="Address already in use"):
            await DevCluster(port=first.port, controllers=False).start()


async def test_cluster_stop_ends_watches_over_tls_with_a_complete_response():
    cluster = DevCluster(controllers=False)
    await cluster.start()
    context = ssl.create_default_context(cadata=cluster.ca_pem.decode())
    headers = {"Authorization": f"Bearer {cluster.token}"}
    url = f"{cluster.server_url}/api/v1/namespaces?watch=1"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, ssl=context, headers=headers) as response,
    ):
        await response.content.readline()
        await cluster.stop()
        # A broken connection would raise an error here.
        await response.read()
