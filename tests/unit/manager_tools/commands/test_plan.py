"""Arguments and output of `plan`; tests/integration/test_plan.py runs the whole command."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path
from typing import Any

import pytest

from apis.example.v1.wordpress import Wordpress
from manager import Context
from manager.api import ObjectKey
from manager.api.confidential import LAST_APPLIED
from manager_tools.commands import plan as command_module
from manager_tools.commands.plan import differs, replaced_pods, unified
from manager_tools.dry_run import Change
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from tests.unit.cli.conftest import Command
from tests.unit.manager_tools.test_dry_run import config, greeting, planning

OURS = "{apiVersion: cache.example.com/v1, kind: Memcached, metadata: {name: web}}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "FILE: not valid YAML in line"),
        ("text", "FILE: an object with apiVersion, kind and metadata is expected"),
        ("{items: [{metadata: 1}]}", "FILE: an object with apiVersion, kind and metadata is expected"),
        (OURS.replace("web", "[a]"), "FILE: an object with apiVersion, kind and metadata.name is expected"),
        (OURS.replace("Memcached", "Pet"), "the files have no object of our kinds, which are Memcached"),
    ],
)
def test_plan_error_for_a_file_without_valid_objects_is_one_line(
    command: Command, tmp_path: Path, text: str, told: str
):
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    assert command("plan", "-f", str(path)).refusal().startswith(f"plan: {told.replace('FILE', str(path))}")


def test_plan_refuses_a_file_or_stdin_longer_than_16_mib(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "objects.yaml"
    path.write_bytes(OURS.encode() + b"\n" * (16 << 20))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    for name in (str(path), "-"):
        assert command("plan", "-f", name).refusal() == f"plan: {name}: it is longer than 16 MiB"


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ((), "either -f FILE or --all is expected"),
        (("--all", "-n", "team"), "-n/--namespace is for objects of -f FILE; --namespaces limits --all"),
        (("-f", "no-such\x1b[2J"), r"no-such\x1b[2J: No such file or directory"),
        (("--all", "--timeout=soon"), "Invalid value for '--timeout': a duration"),
        (("--all", "--controllers=dog"), "--controllers: unknown controller 'dog'"),
    ],
)
def test_plan_reports_an_invalid_argument_in_one_line(command: Command, argv: tuple[str, ...], told: str):
    assert command("plan", *argv).refusal().startswith(f"plan: {told}")


def site(password: str, size: str = "10Gi") -> dict[str, Any]:
    return {
        "apiVersion": Wordpress.gvk.api_version,
        "kind": Wordpress.gvk.kind,
        "metadata": {"name": "blog", "annotations": {LAST_APPLIED: password}},
        "spec": {"sqlrootpassword": password, "storageSize": size},
    }


def test_plan_diff_masks_confidential_fields_of_the_model():
    for before in (None, site("HUNTER2")):
        text = "\n".join(unified(Change(before, site("HUNTER2", "20Gi"), renamed=False)))
        assert "HUNTER2" not in text
        assert "sqlrootpassword: '***'" in text
    change = Change(site("HUNTER2"), site("SESAME"), renamed=False)
    assert differs(change)
    masked = "-  sqlrootpassword: '*** (before)'\n+  sqlrootpassword: '*** (after)'"
    assert masked in "\n".join(unified(change))


def change(before: dict[str, Any], after: dict[str, Any]) -> Change:
    base = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}}
    return Change({**base, **before}, {**base, **after}, renamed=False)


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        ("Deployment", {}, 3),
        ("Deployment", {"paused": True}, 0),
        ("StatefulSet", {}, 3),
        ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, 0),
        ("DaemonSet", {}, 4),
        ("ReplicaSet", {}, 0),
    ],
)
def test_plan_counts_the_pods_that_a_template_change_replaces(kind: str, spec: dict[str, Any], pods: int):
    def version(image: str) -> dict[str, Any]:
        status = {"replicas": 3, "currentNumberScheduled": 4}
        return {"kind": kind, "spec": {**spec, "template": {"spec": image}}, "status": status}

    assert replaced_pods(Change(version("a"), version("b"), False)) == pods
    for before, after in ((version("a"), version("a")), (None, version("b")), (version("a"), None)):
        assert replaced_pods(Change(before, after, False)) == 0


def test_plan_diff_strips_control_characters_and_shortens_lines():
    hostile = "\x1b[2J\x9b31m\u202e\n\x07"
    found = change({"data": {"a": "b"}}, {"data": {"a": hostile, hostile: "x" * 10_000}})
    assert all(line.isprintable() for line in unified(found))
    assert max(map(len, unified(found))) < 2_100


def test_plan_diff_ignores_server_metadata_and_skips_overlong_objects():
    same = change({}, {"metadata": {"name": "a", "resourceVersion": "2", "managedFields": [{}]}})
    assert not differs(same)
    assert list(unified(same)) == []
    long = change({"data": {}}, {"data": {f"key-{number}": "x" for number in range(30_000)}})
    assert list(unified(long)) == ["v1.ConfigMap.a differs, and is too long to be compared"]


async def printed(names: tuple[str, ...], do: Any, *missing: str) -> int:
    """Print plans of `do` for the Greetings `names` and the nonexistent `missing`; return the exit code."""
    async with planning(*map(greeting, names[1:])) as cluster, cluster.controller(do) as controller:
        targets = [
            command_module._Target("Greeting", ObjectKey("default", each), known)
            for known, group in ((controller, names), (None, missing))
            for each in group
        ]
        return await command_module._print_all(targets, cluster.transport)


async def test_plan_counts_changed_objects_without_showing_them_after_reaching_its_output_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    async def create(greeting: Greeting, ctx: Context) -> None:
        await ctx.apply(config(greeting.metadata.name, key="x" * 100))

    monkeypatch.setattr(command_module, "_MOST_SHOWN", 1)
    code = await printed(("hello", "second", "third"), create, "nobody")
    assert code == command_module.FAILED
    said = capsys.readouterr().out
    assert "Greeting default/hello would change" in said
    assert "Greeting default/second" not in said
    assert said.splitlines()[-3:] == [
        "Greeting default/nobody is not there",
        "2 more objects would change; their changes are not shown",
        "3 of 4 objects would change something; 1 failed",
    ]


async def test_plan_reconciles_eight_objects_at_a_time_and_prints_them_in_order(
    capsys: pytest.CaptureFixture[str],
):
    names = ("hello", *(f"hello-{number}" for number in range(20)))
    under_way, most = 0, 0

    async def create(greeting: Greeting, ctx: Context) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await ctx.apply(config(greeting.metadata.name))
        for _ in range(len(greeting.metadata.name)):  # so that they end in another order
            await asyncio.sleep(0)
        under_way -= 1

    code = await printed(names, create)
    told = [line for line in capsys.readouterr().out.splitlines() if " would change " in line]
    told_of = "Greeting default/{0} would change v1.ConfigMap.default.{0}, "
    told_of += "hello.example.com.v1.Greeting.default.{0}"
    assert told == [*map(told_of.format, names), "21 of 21 objects would change something"]
    assert (code, most) == (command_module.CHANGES, 8)
