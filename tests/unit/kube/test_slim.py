from __future__ import annotations

import subprocess
import sys
import textwrap

SLIM = """
    import sys
    from manager.kube._slim import loaders

    before = set(sys.modules)
    found = loaders()
    added = set(sys.modules) - before
"""


def run(*programs: str) -> str:
    """Run these lines one after the other in a fresh interpreter; answers what they print."""
    program = "\n".join(textwrap.dedent(each) for each in programs)
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_only_the_wanted_modules_are_imported():
    what_is_there_anyway = "import aiohttp, asyncio, shlex, tempfile, yaml"
    output = run(what_is_there_anyway, SLIM, "print(sorted(added), 'kubernetes_asyncio' in sys.modules)")
    assert output == "[] False\n"


def test_the_loader_works_without_the_rest():
    output = run(
        SLIM,
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
        loader = found.kubeconfig(found.node("kubeconfig", config))
        asyncio.run(loader.load_and_set(receiver))
        print(receiver.host, receiver.api_key["BearerToken"])
        """,
    )
    assert output == "https://x Bearer secret\n"


def test_what_was_imported_in_full_before_is_used():
    output = run(
        "import kubernetes_asyncio.config.kube_config as full",
        SLIM,
        "print(found.kubeconfig is full.KubeConfigLoader, added)",
    )
    assert output == "True set()\n"


def test_all_of_it_can_be_imported_later():
    output = run(
        SLIM,
        """
        import kubernetes_asyncio
        from kubernetes_asyncio import client, config, watch

        print(client.V1Pod.__name__, client.CoreV1Api.__name__, config.load_kube_config.__name__)
        print(kubernetes_asyncio.client is client, loaders() is found)
        """,
    )
    assert output == "V1Pod CoreV1Api load_kube_config\nTrue True\n"
