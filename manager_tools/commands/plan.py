"""The command `plan`: the changes that the operators would make to existing objects."""

from __future__ import annotations

import asyncio
import difflib
import os
import random
import sys
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Any, NamedTuple

import click

from manager.api import GroupVersionKind, ObjectKey
from manager.api.confidential import masked
from manager.cli.commands import Invocation, pass_invocation
from manager.cli.failure import server_version
from manager.cli.run import SettingsCommand, settings_of
from manager.cli.settings import Settings
from manager.controller import Controller
from manager.controller.failure import Failure, explain
from manager.kube.config import load_config
from manager.kube.errors import Fenced
from manager.kube.http_wire import HttpWire
from manager.operator import AnyOperator, Operator, add_controller
from manager.process.manager import Manager
from manager.settings import SettingValues
from manager.telemetry.logs import configured, get_logger, on_one_line, shortened
from manager.telemetry.metrics import Metrics
from manager.util.duration import format_duration, parse_duration
from manager.util.loop import loop_factory
from manager.util.program import Program
from manager.util.yaml_text import yaml_documents
from manager_kinds.manifests import yaml_lines
from manager_tools.commands.cluster import ended_in_one_line, file_flag, read_input, text_flag
from manager_tools.dry_run import IN_A_POD, Change, DryRunTransport

NOTHING, FAILED, CHANGES = 0, 1, 3

OUTSIDE = "the next action is outside of the cluster, and a plan calls nothing there"
"""The reason, shown to users, for which an action outside of the cluster is refused."""

_COMMAND = "plan"
_LONGEST_FILE = 16 * 1024 * 1024
_MOST_SHOWN = 4 * 1024 * 1024
"""The number of printed characters after which further objects with changes are only counted."""

_LONGEST_NOTE = 1_000

_MOST_LINES = 20_000
"""The maximum number of lines to compare, before and after together: more would take long."""

_LONGEST_LINE = 2_000

_HIDDEN = ("managedFields", "resourceVersion")
_DRAWN = ("uid", "creationTimestamp")
"""Fields of a created object that would have other values in a real run."""

_AT_ONCE = 8
"""The number of objects that are planned concurrently."""

_log = get_logger("plan")


class _Found(NamedTuple):
    kind: tuple[str, str]
    """The kind's group and name."""

    key: ObjectKey


@click.command(cls=SettingsCommand)
@file_flag(
    "-f",
    "--filename",
    "files",
    multiple=True,
    text="plan the objects in this file, as they are in the cluster; repeatable; - is stdin",
)
@text_flag(
    "-n", "--namespace", default="of the context", text="namespace of objects without a namespace in a FILE"
)
@click.option("--all", "every", is_flag=True, help="plan all objects of the operators' kinds")
@click.option("--timeout", type=parse_duration, default="5m", metavar="DURATION", help="time limit")
@pass_invocation
def plan(
    invocation: Invocation,
    flags: Mapping[str, str],
    files: tuple[str, ...],
    namespace: str | None,
    every: bool,
    timeout: float,
) -> int:
    """Print the changes that these operators would make to existing objects.

    Each object is reconciled once, with each write as a dry run of the API server, and the differences are
    printed as kubectl diff does. The command stores nothing, records no Events, and calls nothing outside of
    the cluster.

    The command has the flags, variables and settings file of `run`: use the same values as for the manager.
    The exit code is 0 without changes, 3 with changes, and 1 if the result is unknown.
    """
    if every is bool(files):
        raise click.UsageError("either -f FILE or --all is expected")
    if namespace is not None and not files:
        raise click.UsageError("-n/--namespace is for objects of -f FILE; --namespaces limits --all")
    program = invocation.program
    settings, enabled, declared = settings_of(flags, invocation.operators(), program)
    named = _named(files) if files else None
    if named is not None:
        wanted = {each.kind for each in named}
        kinds = ", ".join(dict.fromkeys(each.kind.gvk.kind for each in enabled))
        enabled = tuple(each for each in enabled if _group_kind(each) in wanted)
        if not enabled:
            raise click.UsageError(f"the files have no object of our kinds, which are {kinds}")
    with (
        configured(level="error"),
        asyncio.Runner(loop_factory=loop_factory()) as runner,
        ended_in_one_line(),
    ):
        return runner.run(_plan(program, settings, enabled, declared, named, namespace, timeout))


def _group_kind(operator: AnyOperator | Operator[Any]) -> tuple[str, str]:
    gvk = operator.kind.gvk
    return gvk.group, gvk.kind


def _named(files: Sequence[str]) -> list[_Found]:
    found: dict[_Found, None] = {}
    for file in files:
        try:
            for document in yaml_documents(read_input(file, _LONGEST_FILE)):
                found.update(dict.fromkeys(_objects(document)))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise click.UsageError(f"{file}: {reason}") from None
    return list(found)


def _objects(document: Any) -> Iterator[_Found]:
    if document is None:
        return
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        for each in document["items"]:
            yield from _objects(each)
        return
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        raise ValueError("an object with apiVersion, kind and metadata is expected")  # noqa: TRY004 - as below
    version, kind, name = document.get("apiVersion"), document.get("kind"), metadata.get("name")
    namespace = metadata.get("namespace") or ""
    if not all(isinstance(each, str) for each in (version, kind, name, namespace)):
        raise ValueError("an object with apiVersion, kind and metadata.name is expected")
    group = GroupVersionKind.from_api_version(str(version), str(kind)).group
    yield _Found((group, str(kind)), ObjectKey(namespace, str(name)))


async def _plan(
    program: Program,
    settings: Settings,
    operators: Sequence[AnyOperator],
    declared: SettingValues,
    named: Sequence[_Found] | None,
    namespace: str | None,
    seconds: float,
) -> int:
    config = await load_config(kubeconfig=settings.kubeconfig, context=settings.context, environ=os.environ)
    rng, metrics = random.Random(), Metrics()
    transport = DryRunTransport(
        HttpWire(config), metrics=metrics, rng=rng, user_agent=f"{program.agent} {_COMMAND}"
    )
    try:
        await server_version(transport, config)
        # The manager never runs: no operator's context manager is entered, no background task starts, no
        # Event is sent.
        manager = Manager(
            transport,
            program=program,
            metrics=metrics,
            rng=rng,
            identity=_COMMAND,
            settings=declared,
            namespaces=settings.namespaces,
        )
        manager.leadership.ended(OUTSIDE)
        made = [operator(manager) for operator in operators]
        controllers = {each: add_controller(each) for each in made}
        reading = asyncio.create_task(manager.cache.run(), name="cache")
        try:
            async with asyncio.timeout(seconds):
                await _synced(manager, reading)
                keys = list(_keys(controllers, named, namespace or config.namespace or "default"))
                return await _print_all(keys, transport)
        except TimeoutError:
            why = "; ".join(manager.cache.problems()) or "the API server is slow"
            raise click.ClickException(f"not done after {format_duration(seconds)}: {why}") from None
        finally:
            reading.cancel()
            await asyncio.wait([reading])
    finally:
        await transport.aclose()


async def _synced(manager: Manager, reading: asyncio.Task[None]) -> None:
    waiting = asyncio.ensure_future(manager.cache.wait_synced())
    try:
        await asyncio.wait((waiting, reading), return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()
    finally:
        waiting.cancel()
        await asyncio.wait([waiting])


class _Target(NamedTuple):
    """An object to plan, with the controller of its kind; the controller is None if the object is missing."""

    kind: str
    key: ObjectKey
    controller: Controller | None


def _keys(
    controllers: Mapping[Operator[Any], Controller | None], named: Sequence[_Found] | None, namespace: str
) -> Iterator[_Target]:
    for operator, controller in controllers.items():
        if controller is None:
            continue  # the operator has only webhooks
        kind = operator.kind.gvk.kind
        if named is None:
            for record in operator.informer.list():
                yield _Target(kind, record.key, controller)
            continue
        for each in named:
            if each.kind != _group_kind(operator):
                continue
            within = (each.key.namespace or namespace) if operator.kind.namespaced else ""
            key = ObjectKey(within, each.key.name)
            yield _Target(kind, key, None if operator.informer.get(key) is None else controller)


async def _print_all(targets: Sequence[_Target], transport: DryRunTransport) -> int:
    changing = failing = unshown = pods = 0
    room = _MOST_SHOWN
    async with aclosing(_each_planned(targets, transport)) as each_planned:
        async for target, planned in each_planned:
            name = _safe(f"{target.kind} {target.key}")
            if planned is None:
                failing += 1
                _print(f"{name} is not there")
                continue
            changing += bool(planned.changes or planned.other)
            failing += planned.failed
            pods += sum(map(replaced_pods, planned.changes))
            if room <= 0:
                unshown += bool(planned.changes or planned.other)
                continue
            for line in _lines(name, planned):
                room -= len(line)
                _print(line)
    if unshown:
        _print(f"{unshown} more objects would change; their changes are not shown")
    replaced = f"; {pods} {'pod' if pods == 1 else 'pods'} would be replaced" if pods else ""
    failed = f"; {failing} failed" if failing else ""
    _print(f"{changing} of {len(targets)} objects would change something{replaced}{failed}")
    return FAILED if failing else CHANGES if changing else NOTHING


async def _each_planned(
    targets: Sequence[_Target], transport: DryRunTransport
) -> AsyncGenerator[tuple[_Target, Planned | None], None]:
    begun: deque[tuple[_Target, asyncio.Task[Planned] | None]] = deque()
    rest = iter(targets)
    try:
        while True:
            for target in islice(rest, _AT_ONCE - len(begun)):
                task = None
                if target.controller is not None:
                    task = asyncio.create_task(plan_object(target.controller, target.key, transport))
                begun.append((target, task))
            if not begun:
                return
            target, task = begun.popleft()
            yield target, None if task is None else await task
    finally:
        left = [task for _, task in begun if task is not None]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


def _lines(name: str, planned: Planned) -> Iterator[str]:
    if planned.changes or planned.other:
        what = ", ".join(title(each) for each in planned.changes)
        yield f"{name} would change {what}" if what else f"{name} would send"
    for change in planned.changes:
        yield from unified(change)
        if change.renamed:
            yield f"{title(change)}: the API server may remove more fields than the plan shows"
        if change.untried:
            yield (
                f"{title(change)}: the installed definition has no status subresource, so the API server has "
                "not tried its status; install the definitions first"
            )
    for request in planned.other:
        yield _safe(f"{name} would send {request}")
    if planned.ends:
        yield f"{name}: {_safe(planned.ends)}"


def _safe(text: str) -> str:
    return on_one_line(shortened(" ".join(text.split("\n")), _LONGEST_NOTE))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


class Planned(NamedTuple):
    """The writes that a reconcile of one object would send."""

    changes: list[Change]
    other: list[str]
    """Other requests, such as an eviction or a scale."""

    ends: str = ""
    """The reason why the plan is incomplete, or ""."""

    failed: bool = False


async def plan_object(controller: Controller, key: ObjectKey, transport: DryRunTransport) -> Planned:
    """Reconcile one object with dry-run writes, and return these writes."""
    ends, failed = "", False
    with transport.planning() as taken:
        try:
            async with asyncio.timeout(controller.options.reconcile_timeout):
                await controller.reconciler.reconcile(key)
        except Fenced as error:
            ends, failed = str(error), str(error) not in {OUTSIDE, IN_A_POD}
        except Exception as error:  # noqa: BLE001 - the operator's code may raise anything
            ends, failed = f"{type(error).__name__}: {explain(error)}", True
            if Failure.of(error, primary=controller.primary, key=key).has_traceback:
                _log.error("a reconcile failed", controller=controller.name, object=str(key), exc_info=error)
    changes, other = taken()
    return Planned([each for each in changes if differs(each)], other, ends, failed)


def title(change: Change) -> str:
    """Return the object's name, as `kubectl diff` names its files."""
    known = change.after or change.before or {}
    version, metadata = str(known.get("apiVersion", "")).replace("/", "."), known.get("metadata", {})
    named = (version, known.get("kind"), metadata.get("namespace"), metadata.get("name"))
    return on_one_line(".".join(str(each) for each in named if each))


def differs(change: Change) -> bool:
    """Return whether a field would change, apart from the API server's own metadata."""
    before, after = _shown(change)
    return before != after


def replaced_pods(change: Change) -> int:
    """Return how many pods a changed template would replace."""
    if change.before is None or change.after is None:
        return 0
    before, after = (each.get("spec") or {} for each in (change.before, change.after))
    if not isinstance(after.get("template"), dict) or before.get("template") == after["template"]:
        return 0
    kind, status = change.after.get("kind"), change.before.get("status") or {}
    by_hand = (after.get("updateStrategy") or {}).get("type") == "OnDelete"
    if kind not in _ROLLED_OUT or by_hand or (kind == "Deployment" and after.get("paused")):
        return 0
    return int(status.get(_ROLLED_OUT[kind]) or 0)


_ROLLED_OUT = {"Deployment": "replicas", "StatefulSet": "replicas", "DaemonSet": "currentNumberScheduled"}
"""Kinds that replace their pods when the template changes, with the status field that counts the pods."""


def unified(change: Change) -> Iterator[str]:
    """Yield the lines of `diff -u`, without confidential values and control characters."""
    before, after = _shown(change)
    name = title(change)
    old, new = ([] if each is None else yaml_lines(each) for each in (before, after))
    if len(old) + len(new) > _MOST_LINES:
        yield f"{name} differs, and is too long to be compared"
        return
    for line in difflib.unified_diff(old, new, f"live/{name}", f"planned/{name}", lineterm=""):
        yield shortened(on_one_line(line), _LONGEST_LINE)


def _shown(change: Change) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    before, after = change.before, change.after
    return (
        before and _cleaned(masked(before, after, "before"), change),
        after and _cleaned(masked(after, before, "after"), change),
    )


def _cleaned(obj: dict[str, Any], change: Change) -> dict[str, Any]:
    hidden = _HIDDEN if change.before is not None else (*_HIDDEN, *_DRAWN)
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name not in hidden}
    return {**obj, "metadata": metadata}
