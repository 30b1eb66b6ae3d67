from __future__ import annotations

import asyncio
import base64
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme
import yaml
from yarl import URL

from manager.kube import config as config_module
from manager.kube.config import ClusterConfig, load_config
from manager.kube.credentials import ExecSpec
from manager.kube.errors import ConfigError
from manager.kube.http_wire import HttpWire
from tests.unit.kube.servers import Answer, LocalServer, fetch

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


def document(name: str = "a", **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"}}],
        "users": [{"name": name, "user": {"token": f"token-{name}"}}],
        **changes,
    }


def write_document(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def kubeconfig(cluster: Any = None, user: Any = None) -> dict[str, Any]:
    """Return a kubeconfig of one cluster and one user."""
    described = {"server": "https://a:6443", **(cluster or {})}
    changes: dict[str, Any] = {"clusters": [{"name": "a", "cluster": described}]}
    if user is not None:
        changes["users"] = [{"name": "a", "user": user}]
    return document(**changes)


def write(path: Path, server: str = "https://a:6443", *, user: Any = None, **cluster: Any) -> Path:
    return write_document(path, kubeconfig({"server": server, **cluster}, user))


@pytest.fixture
def pod(tmp_path: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the service account files of a pod, and return their folder."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("pod-token\n")
    (folder / "namespace").write_text("pod-namespace\n")
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    monkeypatch.setattr(config_module, "SERVICE_ACCOUNT", folder)
    return folder


async def load(flag: Path | None = None, *, context: str | None = None, **environ: str) -> ClusterConfig:
    return await load_config(kubeconfig=flag and str(flag), context=context, environ=environ)


async def header_of(config: ClusterConfig) -> str | None:
    """Return the Authorization header of the current credentials."""
    return (await config.current_credentials()).header


async def test_load_config_tries_flag_then_variable_then_pod_then_home_directory(tmp_path: Path, pod: Path):
    flag = write(tmp_path / "flag", "https://flag")
    variable = write(tmp_path / "variable", "https://variable")
    write(tmp_path / "home/.kube/config", "https://home")
    home = str(tmp_path / "home")
    assert (await load(flag, KUBECONFIG=str(variable), HOME=home, **IN_POD)).server.host == "flag"
    assert (await load(KUBECONFIG=str(variable), HOME=home, **IN_POD)).server.host == "variable"
    assert (await load(KUBECONFIG="~/variable", HOME=str(tmp_path))).server.host == "variable"
    assert (await load(HOME=home, **IN_POD)).server.host == "10.96.0.1"
    assert (await load(HOME=home, context="a", **IN_POD)).server.host == "home", "a pod has no contexts"
    assert (await load(HOME=home)).server.host == "home"


async def test_config_from_a_kubeconfig_has_its_namespace_and_token_and_server_url_with_path(tmp_path: Path):
    path = write(tmp_path / "config")
    config = await load(path)
    assert config.server == URL("https://a:6443")
    assert config.namespace == "ns-a"
    assert config.source == f"kubeconfig {path}: context 'a'"
    assert await header_of(config) == "Bearer token-a"
    assert config.proxy is None
    assert await config.ssl_context() is not None
    bare = document(contexts=[{"name": "a", "context": {"cluster": "a"}}])
    bare["clusters"][0]["cluster"]["server"] = "http://a/k8s/c-1"
    config = await load(write_document(path, bare))
    assert config.server == URL("http://a/k8s/c-1")
    assert await header_of(config) is config.namespace is await config.ssl_context() is None


async def test_config_in_a_pod_uses_namespace_and_token_and_ca_of_the_service_account(pod: Path):
    config = await load(**IN_POD)
    assert config.server == URL("https://10.96.0.1:443")
    assert config.namespace == "pod-namespace"
    assert config.source == "in the cluster"
    assert await header_of(config) == "Bearer pod-token"
    context = await config.ssl_context()
    assert context is not None
    assert context.cert_store_stats()["x509_ca"] == 1
    with_ipv6 = await load(KUBERNETES_SERVICE_HOST="fd00::1", KUBERNETES_SERVICE_PORT="443")
    assert str(with_ipv6.server) == "https://[fd00::1]"


async def test_each_kubeconfig_entry_comes_from_the_first_file_that_contains_it(tmp_path: Path):
    again = document("b")
    again["clusters"] += [{"name": "a", "cluster": {"server": "https://too-late"}}]
    files = [
        tmp_path / "none",
        write_document(tmp_path / "first", document("a", **{"current-context": ""})),
        write_document(tmp_path / "second", again),
        write_document(tmp_path / "third", document("c")),
    ]
    variable = os.pathsep.join(["", *map(str, files)])
    assert (await load(KUBECONFIG=variable)).server.host == "b"
    assert (await load(KUBECONFIG=variable, context="a")).server.host == "a"
    assert (await load(KUBECONFIG=variable, context="c")).server.host == "c"


async def test_kubeconfig_paths_are_relative_to_the_file_that_contains_them(tmp_path: Path):
    first = write_document(tmp_path / "x/first", document(users=[]))
    second = write_document(tmp_path / "y/second", {"users": [{"name": "a", "user": {"tokenFile": "token"}}]})
    (tmp_path / "y/token").write_text("beside-second\n")
    config = await load(KUBECONFIG=f"{first}{os.pathsep}{second}")
    assert await header_of(config) == "Bearer beside-second"


async def test_server_address_without_scheme_means_http_when_no_ca_is_configured(tmp_path: Path):
    config = await load(write(tmp_path / "config", "a:6443", user={"as": "jane"}))
    assert config.server == URL("http://a:6443")
    assert config.headers == [("Impersonate-User", "jane")]


CREDENTIALS: list[dict[str, Any]] = [
    {"token": "hunter2"},
    {"tokenFile": "hunter2"},
    {"username": "jane", "password": "hunter2"},
    {"client-certificate": "hunter2", "client-key": "hunter2"},
    {"client-certificate-data": "hunter2", "client-key-data": "hunter2"},
    {"exec": {"command": "touch", "args": ["ran"], "apiVersion": V1BETA1}},
]


@pytest.mark.parametrize("user", CREDENTIALS, ids=lambda user: next(iter(user)))
@pytest.mark.parametrize("is_proxy", [False, True], ids=["direct", "proxy"])
async def test_plain_http_server_gets_no_credentials_and_runs_no_exec_program(
    tmp_path: Path, user: dict[str, Any], is_proxy: bool, monkeypatch: pytest.MonkeyPatch, log_lines: Any
):
    monkeypatch.chdir(tmp_path)
    async with LocalServer() as server:
        proxy = {"proxy-url": server.url} if is_proxy else {}
        path = write(tmp_path / "config", server.url, user=user, **proxy)
        wire = HttpWire(await load(path, PATH=os.environ["PATH"]))
        # A 401 response must not make the wire send credentials.
        server.answer = lambda _: Answer(status=401)
        assert (await fetch(wire))[0] == 401
        (request,) = server.requests
        assert "Authorization" not in request.headers
        assert "hunter2" not in str(request.headers)
        assert not (tmp_path / "ran").exists()
        assert [line["event"] for line in log_lines] == ["credentials are not sent over plain HTTP"]
        await wire.aclose()


async def test_proxy_of_the_kubeconfig_cluster_overrides_the_environment(tmp_path: Path):
    own = write(tmp_path / "own", **{"proxy-url": "http://own:1"})
    assert (await load(own, HTTPS_PROXY="http://other:2")).proxy == URL("http://own:1")
    assert (await load(write(tmp_path / "none"), HTTPS_PROXY="http://other:2")).proxy == URL("http://other:2")


def with_program(**changes: Any) -> dict[str, Any]:
    """Return a kubeconfig whose user has an exec program."""
    return kubeconfig(user={"exec": {"command": "a", "apiVersion": V1BETA1, **changes}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no current-context; name one with --context"),
        ("{", "not valid YAML in line 2, column 1: "),
        ("- a", "not a kubeconfig: Expected `object`, got `array`"),
        (document(**{"current-context": "z"}), r"no context 'z' \(there are: 'a'\)"),
        (document(clusters=[]), "no cluster 'a', which context 'a' refers to"),
        (document(users=None), "no user 'a', which context 'a' refers to"),
        (document(contexts=[{"name": "a", "context": {}}]), "context 'a' names no cluster"),
        (document(apiVersion="v2"), r"not a kubeconfig: Invalid enum value 'v2' - at `\$.apiVersion`"),
        (document(users=[{"name": "a"}, {"name": "a"}]), "there are two entries 'a' in users"),
        (kubeconfig({"server": "ftp://a"}), "'ftp://a' is not an http:// or https:// URL"),
        (kubeconfig({"server": ""}), "cluster 'a' names no server"),
        *(
            (kubeconfig({"server": address}), "cluster 'a': server: ")
            for address in ("https://jane:hunter2@a:port", "jane:hunter2@a", "https://jane:12/hunter2@a")
        ),
        *(
            (kubeconfig({"server": "a:6443"}, user), "and there the credentials of user 'a' are not sent$")
            for user in CREDENTIALS
        ),
        *(
            (
                kubeconfig({"server": "a:6443", key: value}, {"as": "jane"}),
                f"and there {key} has no meaning$",
            )
            for key, value in (("certificate-authority", "ca.crt"), ("insecure-skip-tls-verify", True))
        ),
        (kubeconfig({"certificate-authority": "none"}), "certificate-authority: .*/none cannot be read"),
        (kubeconfig({"certificate-authority-data": "eHg="}), "certificate-authority-data: contains no PEM"),
        (
            kubeconfig({"insecure-skip-tls-verify": True, "certificate-authority-data": "eHg="}),
            "cluster 'a' has both a certificate-authority and insecure-skip-tls-verify",
        ),
        (kubeconfig({"tls-server-name": ".a"}), "cluster 'a': tls-server-name: '.a' is not a host's name"),
        (kubeconfig({"tls-server-name": "a..b"}), "is not a host's name"),
        (kubeconfig({"proxy-url": "p:1"}), "cluster 'a': proxy-url has to begin with http://"),
        (with_program(apiVersion=V1), "exec: interactiveMode is missing: one of Never"),
        (with_program(interactiveMode="No"), r"exec: Invalid .* 'No' - at `\$.interactiveMode`"),
        (with_program(apiVersion="v1"), r"exec: Invalid .* 'v1' - at `\$.apiVersion`"),
        (kubeconfig(user={"exec": {"apiVersion": V1BETA1}}), "exec: Object missing required field `command`"),
        (with_program(env=[{"name": "", "value": "b"}]), "exec: Expected .* at .*name`"),
        (kubeconfig(user={"exec": "aws"}), "user 'a': exec: Expected `object`, got `str`"),
        (kubeconfig(user={"client-certificate": "crt"}), "user 'a' has no client-key"),
        (kubeconfig(user={"client-key": "-----BEGIN\nhunter2"}), "client-key cannot be the name of a file$"),
        (kubeconfig(user={"tokenFile": "none"}), "user 'a': tokenFile: .*/none cannot be read"),
        (kubeconfig(user={"token": ["hunter2"]}), r"got `array` - at `\$.users\[0\]"),
        (kubeconfig(user={"auth-provider": {}, "token": "x"}), "auth-provider is not supported: use exec"),
        (kubeconfig(user={"as": "jane\nX-Other: 1"}), "user 'a': as: .* is not one line of text"),
        (kubeconfig(user={"as-groups": ["system:masters"]}), "user 'a' impersonates nobody: 'as' is missing"),
        *(
            (kubeconfig(user={"client-certificate": "c", "client-key-data": data}), "key-data: not base64")
            for data in ("schl\u00fcssel", "YWJj=", "YWJj====", "YQ=", "YQ==YQ==", "YW Jj")
        ),
    ],
)
async def test_load_config_error_is_one_line_that_names_the_file_and_quotes_no_secret(
    tmp_path: Path, content: Any, message: str
):
    path = write_document(tmp_path / "config", content)
    with pytest.raises(ConfigError, match=message) as caught:
        await load(path)
    assert str(caught.value).startswith((f"{path}: ", f"--kubeconfig {path}: "))
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_load_config_error_names_the_missing_file_or_the_sources_to_choose_from(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"^--kubeconfig /none/such: no such file$"):
        await load(Path("/none/such"))
    with pytest.raises(ConfigError, match=r"^KUBECONFIG=/none/such:/none/other: no such file$"):
        await load(KUBECONFIG="/none/such:/none/other")
    with pytest.raises(
        ConfigError, match=r"give --kubeconfig, set KUBECONFIG, run in a pod, or have .*/\.kube/c"
    ):
        await load(HOME=str(tmp_path))


@pytest.mark.parametrize("place", ["--kubeconfig", "KUBECONFIG", "HOME"])
async def test_load_config_error_names_the_file_when_its_folder_is_inaccessible(tmp_path: Path, place: str):
    name = "x" * 300  # the system refuses so long a name even to root
    given, path = {place: str(tmp_path / name)}, tmp_path / name
    if place == "HOME":
        path /= ".kube/config"
    with pytest.raises(ConfigError, match=rf"^{path}: cannot be read: File name too long$"):
        await load(path if place == "--kubeconfig" else None, **given)


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
async def test_load_config_error_names_the_missing_service_account_file(pod: Path, missing: str):
    (pod / missing).unlink()
    with pytest.raises(ConfigError, match=rf"^in the cluster: .*/{missing} cannot be read"):
        await load(**IN_POD)


async def test_client_certificate_from_an_exec_program_is_presented_to_the_server(
    tmp_path: Path, authority: trustme.CA
):
    issued = authority.issue_cert("a.test", common_name="from-program")
    status = {
        "clientCertificateData": issued.cert_chain_pems[0].bytes().decode(),
        "clientKeyData": issued.private_key_pem.bytes().decode(),
    }
    credential = {"kind": "ExecCredential", "apiVersion": V1BETA1, "status": status}
    (tmp_path / "credential").write_bytes(orjson.dumps(credential))
    async with LocalServer(authority, requires_certificate=True) as server:
        ca = base64.b64encode(authority.cert_pem.bytes()).decode()
        user = {"exec": {"command": "cat", "args": [str(tmp_path / "credential")], "apiVersion": V1BETA1}}
        trusted = {"certificate-authority-data": ca, "certificate-authority": "none"}  # the file is not read
        path = write(tmp_path / "config", server.url, user=user, **trusted)
        wire = HttpWire(await load(path, PATH=os.environ["PATH"]))
        for _ in range(2):
            await fetch(wire)
        assert [request.client for request in server.requests] == ["from-program"] * 2
        assert server.connections == 1
        await wire.aclose()


@pytest.mark.parametrize("change", [{"apiVersion": None}, {"kind": None}, {"apiVersion": ""}])
async def test_kubeconfig_without_api_version_or_kind_is_accepted(tmp_path: Path, change: dict[str, Any]):
    assert (await load(write_document(tmp_path / "config", document(**change)))).server.host == "a"


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"username": "jane", "password": "secret"}, f"Basic {base64.b64encode(b'jane:secret').decode()}"),
        ({"tokenFile": "token", "token": "fixed"}, "Bearer from-file"),
        ({"token": "x", "exec": {"command": "none-such", "apiVersion": V1BETA1}}, "Bearer x"),
        ({"username": "", "password": "secret"}, None),
        ({"username": "jane"}, f"Basic {base64.b64encode(b'jane:').decode()}"),
    ],
)
async def test_kubeconfig_user_credentials_become_the_authorization_header(
    tmp_path: Path, user: dict[str, Any], expected: str | None
):
    (tmp_path / "token").write_text("from-file\n")
    assert await header_of(await load(write(tmp_path / "config", user=user))) == expected


async def test_exec_program_with_a_relative_command_receives_the_cluster_info(
    tmp_path: Path, authority: trustme.CA
):
    plugin = tmp_path / "plugin"
    plugin.write_text(
        '#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/seen"\n'
        f'echo \'{{"kind": "ExecCredential", "apiVersion": "{V1BETA1}", "status": {{"token": "x"}}}}\'\n'
    )
    plugin.chmod(0o700)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "name",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}],
    }
    user = {"exec": {"command": "./plugin", "apiVersion": V1BETA1, "provideClusterInfo": True}}
    config = await load(write(tmp_path / "config", user=user, **cluster))
    assert await header_of(config) == "Bearer x"
    assert orjson.loads((tmp_path / "seen").read_text())["spec"]["cluster"] == {
        "server": "https://a:6443",
        "tls-server-name": "name",
        "certificate-authority-data": base64.b64encode(authority.cert_pem.bytes()).decode(),
        "config": {"audience": "me"},
    }


async def test_exec_program_with_a_null_in_each_optional_field_is_started(tmp_path: Path):
    (tmp_path / "plugin").write_text(
        "#!/bin/sh\n"
        f'echo \'{{"kind": "ExecCredential", "apiVersion": "{V1BETA1}", "status": {{"token": "x"}}}}\'\n'
    )
    (tmp_path / "plugin").chmod(0o700)
    optional = dict.fromkeys(("args", "installHint", "provideClusterInfo", "interactiveMode"))
    optional["env"] = [{"name": "A", "value": None}]
    user = {"exec": {"command": "./plugin", "apiVersion": V1BETA1, **optional}}
    assert await header_of(await load(write(tmp_path / "config", user=user))) == "Bearer x"


async def test_kubeconfig_impersonation_fields_become_request_headers(tmp_path: Path):
    extra = {"acme.com/\u00fcber 100%": ["z"], "reason": ["x", "y"]}
    user = {"token": "x", "as": "jane", "as-uid": "1", "as-groups": ["a", "b"], "as-user-extra": extra}
    assert (await load(write(tmp_path / "config", user=user))).headers == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-acme.com%2F%C3%BCber%20100%25", "z"),
        ("Impersonate-Extra-reason", "x"),
        ("Impersonate-Extra-reason", "y"),
    ]
    assert (await load(write(tmp_path / "config"))).headers == []


INFO = "client.authentication.k8s.io/exec"
ODD: list[Any] = [
    *([{}, [], [[]], [{}], [5], [None], ["a\nb"], {5: 6}, {"a": "b"}, {"a": 5}, {"a": ["b", 5]}]),
    *([{None: [None]}, {"a\nb": ["c"]}, [{"name": 5}], [{"name": INFO, "extension": {5: {b"x"}}}]]),
    *(None, True, False, 0, -1, 2**70, 2**20_000, 1.5, float("nan"), b"\xff"),
    *("", " ", ".", "..", "/", "//", "~", "a\0b", "a\nb", "\u00e9", "\ud800", "x" * 5000, "=", "eHg="),
    *("https://a:1", "a:1", "https://", "https://[", "https://a:99999", "https://.", "https://%zz", "a..b:1"),
]
CLUSTER = config_module._Cluster.__struct_encode_fields__
USER = config_module._User.__struct_encode_fields__
PROGRAM = ExecSpec.__struct_encode_fields__


def odd_documents() -> Iterator[Any]:
    """Yield kubeconfigs, each with one unusual value."""
    program = {"command": "none-such", "apiVersion": V1BETA1, "provideClusterInfo": True}
    jane = {"as": "jane"}
    for odd in ODD:
        yield odd
        for key in ("current-context", "contexts", "clusters", "users"):
            yield {**kubeconfig(user=jane), key: odd}
        for key, kind in itertools.product(("name", "context"), ("cluster", "user", "namespace")):
            context = {"cluster": "a", "user": "a", kind: odd}
            yield {**kubeconfig(user=jane), "contexts": [{"name": "a", "context": context, key: odd}]}
        for key in CLUSTER:
            yield kubeconfig({key: odd}, jane)
            yield kubeconfig({key: odd}, {"exec": program})
        for key in USER:
            yield kubeconfig(user={**jane, key: odd})
        for user in (
            {"as-user-extra": {"a": odd}, **jane},
            {"as-groups": [odd], **jane},
            {"client-certificate": "a", "client-key": "b", "client-certificate-data": odd},
            {"client-certificate": "a", "client-key": "b", "client-key-data": odd},
            {"exec": {**program, "env": [{"name": odd, "value": odd}]}},
            *({"exec": {**program, key: odd}} for key in PROGRAM),
        ):
            yield kubeconfig(user=user)


def test_kubeconfig_with_one_unusual_value_loads_or_raises_a_one_line_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "config"
    path.touch()
    with asyncio.Runner() as runner:
        for each in odd_documents():
            # Bypass the YAML parser, because YAML cannot express all of these values.
            monkeypatch.setattr("manager.util.yaml_text.load", lambda _, each=each: each)
            try:
                found = config_module._find(str(path), None, {"HOME": "/none", "PATH": "/none"})
                runner.run(found.current_credentials())
            except ConfigError as error:
                refusal = str(error)
            except Exception as error:
                error.add_note(f"for {each!r}"[:1000])
                raise
            else:
                continue
            assert "\n" not in refusal, each
            assert refusal.startswith((f"{path}:", f"--kubeconfig {path}")), each
