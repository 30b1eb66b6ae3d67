"""The part of kubernetes-asyncio that is wanted, without the rest, and only where it is wanted."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

NAME = "kubernetes_asyncio.config.kube_config"
PRIVATE = f"""
    import sys
    from manager.kube.auth_provider import private_module

    before = set(sys.modules)
    found = private_module("{NAME}")
    added = set(sys.modules) - before
"""
CONFIGURED = """
    import asyncio, sys
    from pathlib import Path
    from manager.kube import config


    async def load(environ, kubeconfig=None):
        found = await config.load_config(kubeconfig=kubeconfig, context=None, environ=environ)
        return await found.authorization()
"""
LOADED = "print('manager.kube.auth_provider' in sys.modules, 'kubernetes_asyncio' in sys.modules)"


def run(*programs: str) -> str:
    """Run these lines one after the other in a fresh interpreter; answers what they print."""
    program = "\n".join(textwrap.dedent(each) for each in programs)
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_only_the_wanted_modules_are_executed_and_none_is_found_by_others():
    what_is_there_anyway = "import aiohttp, asyncio, shlex, tempfile, yaml"
    assert run(what_is_there_anyway, PRIVATE, "print(sorted(added))") == "[]\n"


def test_the_loader_works_without_the_rest():
    output = run(
        PRIVATE,
        """
        import asyncio
        from types import SimpleNamespace

        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://x"}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        }
        receiver = SimpleNamespace(api_key={})
        loader = found.KubeConfigLoader(found.ConfigNode("kubeconfig", config))
        asyncio.run(loader.load_and_set(receiver))
        print(receiver.host, receiver.api_key["BearerToken"])
        """,
    )
    assert output == "https://x Bearer secret\n"


@pytest.mark.parametrize("order", ["before", "after"])
def test_all_of_it_can_be_imported_as_well(order: str):
    whole = """
        import kubernetes_asyncio
        from kubernetes_asyncio import client, config, watch

        print(client.V1Pod.__name__, client.CoreV1Api.__name__, config.load_kube_config.__name__)
    """
    programs = [whole, PRIVATE] if order == "before" else [PRIVATE, whole]
    output = run(*programs, "print(found is config.kube_config, client.ApiClient is found.ApiClient)")
    assert output == "V1Pod CoreV1Api load_kube_config\nFalse False\n"


def test_a_pod_loads_nothing_of_it(tmp_path: Path):
    (tmp_path / "token").write_text("mine")
    output = run(
        CONFIGURED,
        f"""
        config.SERVICE_ACCOUNT = Path({str(tmp_path)!r})
        config.Tls.context = lambda self: asyncio.sleep(0)  # there is no authority to read
        environ = {{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}}
        print(asyncio.run(load(environ)))
        """,
        LOADED,
    )
    assert output == "Bearer mine\nFalse False\n"


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "mine"}, "Bearer mine"),
        ({"username": "me", "password": "secret"}, "Basic bWU6c2VjcmV0"),
        ({"username": "me"}, "None"),
        ({}, "None"),
    ],
)
def test_a_kubeconfig_loads_nothing_of_it_where_no_provider_is_named(
    tmp_path: Path, user: dict[str, str], header: str
):
    path = tmp_path / "config"
    written = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://x"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(written))
    output = run(CONFIGURED, f"print(asyncio.run(load({{}}, {str(path)!r})))", LOADED)
    assert output == f"{header}\nFalse False\n"
