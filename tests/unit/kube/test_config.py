from __future__ import annotations

import base64
import os
import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme
import yaml
from structlog.testing import capture_logs
from yarl import URL

from manager.kube import config as config_module
from manager.kube.config import load_config
from manager.kube.errors import ConfigError
from manager.kube.http_wire import HttpWire
from manager.kube.wire import WireRequest
from tests.unit.kube.servers import Answer, LocalServer

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def write(path: Path, server: str = "https://a:6443", *, user: Any = None, **cluster: Any) -> Path:
    value: dict[str, Any] = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "ns"}}],
        "clusters": [{"name": "a", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "a", "user": user or {"token": "secret"}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(value))
    return path


@pytest.fixture
def pod(tmp_path: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the service account's folder of a pod."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("pod-token\n")
    (folder / "namespace").write_text("pod-namespace\n")
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    monkeypatch.setattr(config_module, "SERVICE_ACCOUNT", folder)
    return folder


async def load(
    flag: Path | None = None, *, context: str | None = None, **environ: str
) -> config_module.ClusterConfig:
    return await load_config(kubeconfig=flag and str(flag), context=context, environ=environ)


async def test_config_prefers_flag_then_variable_then_pod_then_home(tmp_path: Path, pod: Path):
    flag = write(tmp_path / "flag", "https://flag")
    variable = write(tmp_path / "variable", "https://variable")
    write(tmp_path / "home/.kube/config", "https://home")
    home = str(tmp_path / "home")
    assert (await load(flag, KUBECONFIG=str(variable), HOME=home, **IN_POD)).server.host == "flag"
    assert (await load(KUBECONFIG=str(variable), HOME=home, **IN_POD)).server.host == "variable"
    assert (await load(HOME=home, **IN_POD)).server.host == "10.96.0.1"
    assert (await load(HOME=home)).server.host == "home"


async def test_naming_a_context_leaves_out_the_pod(tmp_path: Path, pod: Path):
    write(tmp_path / ".kube/config", "https://home")
    assert (await load(context="a", HOME=str(tmp_path), **IN_POD)).server.host == "home"


async def test_kubeconfig_gives_server_token_namespace_and_its_own_path(tmp_path: Path):
    path = write(tmp_path / "config")
    config = await load(path)
    assert config.server == URL("https://a:6443")
    assert config.namespace == "ns"
    assert config.source == f"kubeconfig {path}, context 'a'"
    assert await config.authorization() == "Bearer secret"
    assert config.proxy is None


async def test_pod_gives_server_token_namespace_and_authority(pod: Path):
    config = await load(**IN_POD)
    assert config.server == URL("https://10.96.0.1:443")
    assert config.namespace == "pod-namespace"
    assert config.source == "in the cluster"
    assert await config.authorization() == "Bearer pod-token"
    context = await config.ssl_context()
    assert context is not None
    assert context.cert_store_stats()["x509_ca"] == 1


async def test_pod_with_ipv6_addresses_works(pod: Path):
    config = await load(KUBERNETES_SERVICE_HOST="fd00::1", KUBERNETES_SERVICE_PORT="443")
    assert str(config.server) == "https://[fd00::1]"


async def test_kubeconfig_variable_may_name_several_files_and_the_first_one_wins(tmp_path: Path):
    first = write(tmp_path / "first", "https://first")
    second = write(tmp_path / "second", "https://second")
    variable = os.pathsep.join([str(tmp_path / "none"), str(first), "", str(second)])
    assert (await load(KUBECONFIG=variable)).server.host == "first"


async def test_kubeconfig_path_may_begin_with_the_home(tmp_path: Path):
    write(tmp_path / "x/config")
    assert (await load(KUBECONFIG="~/x/config", HOME=str(tmp_path))).server.host == "a"


@pytest.mark.parametrize(
    ("address", "cluster", "expected"),
    [
        ("https://a:6443", {"certificate-authority": "ca.crt"}, "https://a:6443"),
        ("https://a/k8s/clusters/c-1", {}, "https://a/k8s/clusters/c-1"),
    ],
)
async def test_server_url_may_be_written_in_several_ways(
    tmp_path: Path, authority: trustme.CA, address: str, cluster: dict[str, Any], expected: str
):
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    assert (await load(write(tmp_path / "config", address, **cluster))).server == URL(expected)


async def test_plain_http_has_no_tls(tmp_path: Path):
    assert await (await load(write(tmp_path / "config", "http://a"))).ssl_context() is None


async def test_server_without_scheme_and_authority_uses_http_without_credentials(
    tmp_path: Path,
):
    config = await load(write(tmp_path / "config", "a:6443", user={"as": "jane"}))
    assert config.server == URL("http://a:6443")
    assert config.headers == (("Impersonate-User", "jane"),)


V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


@pytest.mark.parametrize("key", ["certificate-authority", "insecure-skip-tls-verify"])
async def test_server_without_a_scheme_is_refused_when_the_cluster_speaks_of_tls(tmp_path: Path, key: str):
    value = True if key.startswith("insecure") else "ca.crt"
    path = write(tmp_path / "config", "a:6443", user={"as": "jane"}, **{key: value})
    with pytest.raises(ConfigError, match=f"it means plain HTTP, and there {key} has no meaning$"):
        await load(path)


async def test_token_counts_and_no_program_is_run_when_the_user_has_both(
    tmp_path: Path, authority: trustme.CA
):
    program = {"command": "none-such", "apiVersion": V1BETA1}
    async with LocalServer(authority) as server:
        ca = base64.b64encode(authority.cert_pem.bytes()).decode()
        user = {"token": "x", "exec": program}
        path = write(tmp_path / "config", server.url, user=user, **{"certificate-authority-data": ca})
        wire = HttpWire(await load(path))
        async with wire.exchange(WireRequest("GET", "/", {})) as response:
            await response.read()
        assert server.requests[0].headers["Authorization"] == "Bearer x"
        await wire.aclose()


CREDENTIALS: list[dict[str, Any]] = [
    {"token": "hunter2"},
    {"tokenFile": "hunter2"},
    {"username": "jane", "password": "hunter2"},
    {"client-certificate": "hunter2", "client-key": "hunter2"},
    {"client-certificate-data": "hunter2", "client-key-data": "hunter2"},
    {"exec": {"command": "touch", "args": ["ran"], "apiVersion": V1BETA1}},
]


@pytest.mark.parametrize("user", CREDENTIALS, ids=lambda user: next(iter(user)))
async def test_credentials_for_a_server_without_a_scheme_are_refused_as_they_would_go_in_the_clear(
    tmp_path: Path, user: dict[str, Any]
):
    path = write(tmp_path / "config", "a:6443", user=user)
    expected = (
        rf"^{path}: server of cluster 'a': 'a:6443' does not say https://, so it means plain HTTP, "
        "and there the credentials of user 'a' are not sent$"
    )
    with pytest.raises(ConfigError, match=expected):
        await load(path)


@pytest.mark.parametrize("user", CREDENTIALS, ids=lambda user: next(iter(user)))
@pytest.mark.parametrize("proxy", [{}, {"proxy-url": "http://127.0.0.1:1"}], ids=["direct", "proxy"])
async def test_credentials_are_not_sent_to_a_server_over_plain_http_nor_is_a_program_run_for_them(
    tmp_path: Path, user: dict[str, Any], proxy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    async with LocalServer() as server, AsyncExitStack() as stack:
        lines = stack.enter_context(capture_logs())
        if proxy:
            proxy = {"proxy-url": server.url}
        wire = HttpWire(
            await load(
                write(tmp_path / "config", server.url, user=user, **proxy), PATH=os.environ.get("PATH", "")
            )
        )
        # A server that says 401 gets nothing either.
        server.answer = lambda _: Answer(status=401)
        async with wire.exchange(WireRequest("GET", "/", {})) as response:
            assert response.status == 401
        (request,) = server.requests
        assert "Authorization" not in request.headers
        assert "hunter2" not in str(request.headers)
        assert not (tmp_path / "ran").exists()
        assert [line["event"] for line in lines] == ["credentials are not sent over plain HTTP"]
        await wire.aclose()


@pytest.mark.parametrize(
    "address",
    [
        "https://jane:hunter2@a",
        "https://jane:hunter2@a:port",
        "jane:hunter2@a",
        "https://jane:12/hunter2@a",
        "https://hunter2:12?x@a",
    ],
)
async def test_server_url_with_a_password_is_refused_without_quoting_it(tmp_path: Path, address: str):
    path = write(tmp_path / "config", address)
    with pytest.raises(ConfigError, match=f"^{path}: server of cluster 'a': ") as caught:
        await load(path)
    assert "hunter2" not in str(caught.value)


async def test_proxy_of_the_kubeconfig_cluster_overrides_the_environment(tmp_path: Path):
    own = write(tmp_path / "own", **{"proxy-url": "http://own:1"})
    assert (await load(own, HTTPS_PROXY="http://other:2")).proxy == URL("http://own:1")
    assert (await load(write(tmp_path / "none"), HTTPS_PROXY="http://other:2")).proxy == URL("http://other:2")


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"server": "https://"}, {}, "server of cluster 'a': 'https://' is not an http:// or https:// URL"),
        ({"server": "ftp://a"}, {}, "'ftp://a' is not an http:// or https:// URL"),
        ({"server": ""}, {}, "cluster 'a' names no server"),
        (
            {"certificate-authority": "none"},
            {},
            "certificate-authority of 'a': .*/none cannot be read: No such",
        ),
        ({"certificate-authority-data": "x"}, {}, "certificate-authority-data of 'a': not base64"),
        ({"certificate-authority-data": "eHg="}, {}, "certificate-authority-data of 'a': holds no PEM cert"),
        (
            {"insecure-skip-tls-verify": "yes"},
            {},
            "insecure-skip-tls-verify of 'a' is neither true nor false",
        ),
        (
            {"insecure-skip-tls-verify": True, "certificate-authority-data": "eHg="},
            {},
            "cluster 'a' has both a certificate-authority and insecure-skip-tls-verify",
        ),
        ({"tls-server-name": ".a"}, {}, "tls-server-name of cluster 'a': '.a' is not a host's name"),
        ({"tls-server-name": "a\0b"}, {}, "is not a host's name"),
        ({"tls-server-name": "a..b"}, {}, "is not a host's name"),
        ({"proxy-url": "socks5h://p:1"}, {}, "proxy-url of cluster 'a': not the URL of an http"),
        ({"proxy-url": "p:1"}, {}, "proxy-url of cluster 'a': it has to begin with http://"),
        ({}, {"exec": {"command": "a", "apiVersion": V1}}, "exec: interactiveMode is missing: one of Never"),
        (
            {},
            {"exec": {"command": "a", "apiVersion": V1BETA1, "interactiveMode": "No"}},
            "exec: interactiveMode 'No' is none of Never",
        ),
        ({}, {"exec": {"command": "a", "apiVersion": "v1"}}, "exec: apiVersion 'v1' is not client.auth"),
        ({}, {"exec": {"command": "", "apiVersion": V1BETA1}}, "exec: command is missing"),
        (
            {},
            {"exec": {"command": "a", "apiVersion": V1BETA1, "env": [{"name": "", "value": "b"}]}},
            "exec: env: a variable has no name",
        ),
        ({}, {"client-certificate": "crt"}, "user 'a' has no client-key"),
        ({}, {"client-key": "key"}, "user 'a' has no client-certificate"),
        (
            {},
            {"client-certificate": "crt", "client-key": "key"},
            "client-certificate of 'a': .*/crt cannot be",
        ),
        ({}, {"tokenFile": "none"}, "user 'a': tokenFile: .*/none cannot be read"),
        (
            {},
            {"exec": {"command": "none-such", "apiVersion": V1BETA1}},
            "exec 'none-such': cannot be started",
        ),
    ],
)
async def test_load_config_error_is_one_line_that_begins_with_the_file(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], message: str
):
    path = write(tmp_path / "config", **{"server": "https://a", **cluster}, user=user)
    with pytest.raises(ConfigError, match=message) as caught:
        await load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


async def test_missing_file_is_reported_by_the_name_it_was_given(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"^--kubeconfig /none/such: no such file$"):
        await load(Path("/none/such"))
    with pytest.raises(ConfigError, match=r"^KUBECONFIG=/none/such:/none/other: no such file$"):
        await load(KUBECONFIG="/none/such:/none/other")


async def test_load_config_error_lists_every_source_when_none_is_found(tmp_path: Path):
    with pytest.raises(
        ConfigError, match=r"give --kubeconfig, set KUBECONFIG, run in a pod, or have .*/\.kube/config"
    ):
        await load(HOME=str(tmp_path))


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
async def test_in_cluster_config_names_its_missing_files(pod: Path, missing: str):
    (pod / missing).unlink()
    with pytest.raises(ConfigError, match=rf"^in the cluster: .*/{missing} cannot be read"):
        await load(**IN_POD)


async def test_certificate_of_an_exec_program_is_presented(tmp_path: Path, authority: trustme.CA):
    issued = authority.issue_cert("a.test", common_name="from-program")
    status = {
        "clientCertificateData": issued.cert_chain_pems[0].bytes().decode(),
        "clientKeyData": issued.private_key_pem.bytes().decode(),
    }
    credential = {"kind": "ExecCredential", "apiVersion": V1BETA1, "status": status}
    (tmp_path / "credential").write_bytes(orjson.dumps(credential))
    async with LocalServer(authority) as server:
        assert server.context is not None
        authority.configure_trust(server.context)
        server.context.verify_mode = ssl.CERT_REQUIRED
        ca = base64.b64encode(authority.cert_pem.bytes()).decode()
        user = {"exec": {"command": "cat", "args": [str(tmp_path / "credential")], "apiVersion": V1BETA1}}
        path = write(tmp_path / "config", server.url, user=user, **{"certificate-authority-data": ca})
        wire = HttpWire(await load(path, PATH=os.environ["PATH"]))
        for _ in range(2):
            async with wire.exchange(WireRequest("GET", "/", {})) as response:
                await response.read()
        assert [request.client for request in server.requests] == ["from-program"] * 2
        assert server.connections == 1
        await wire.aclose()
