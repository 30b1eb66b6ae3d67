"""The command `explain`, which prints why an object is not ready."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import click
import msgspec
import orjson
from yarl import URL

from manager.api import ObjectKey, Resource
from manager.cli.commands import Invocation, pass_invocation
from manager.cli.failure import in_one_line
from manager.cli.operators import owned_by
from manager.kube.config import ClusterConfig
from manager.kube.credentials import FixedCredentials, TokenFile
from manager.kube.decoding import shallow_at_once
from manager.kube.errors import ApiError, KubeError, ProtocolError, TransportError
from manager.kube.http_wire import HttpWire
from manager.kube.rest_mapping import RestMapper
from manager.kube.tls import Pem, Tls, TlsFiles
from manager.kube.transport import Transport
from manager.operator import AnyOperator
from manager.telemetry.logs import configured
from manager.telemetry.metrics import Metrics
from manager.telemetry.runs import (
    CALLED,
    NO_ANSWER,
    SPARED,
    EventRecord,
    ReconcileRecord,
    RequestRecord,
    Trigger,
    resource_and_name,
)
from manager.util.loop import loop_factory
from manager.util.program import Program
from manager_console.diagnosis.collect import Collector, Node
from manager_console.diagnosis.explanation import (
    ControllerReport,
    Explanation,
    ManagerReport,
    ShardOwner,
    ago,
    next_run,
    owner_text,
    reason_of,
    to_objects,
    visible,
)
from manager_console.diagnosis.explanation import explain as explain_state
from manager_console.diagnosis.shard_holders import ShardLeases, shared_out_by
from manager_tools.commands.cluster import (
    cluster_flags,
    connected,
    ended_in_one_line,
    file_flag,
    kind_named,
    manager_namespace,
    manager_url,
    text_flag,
)

READY, NOT_READY = 0, 3

_COMMAND = "explain"
_LOCAL = "http://127.0.0.1:8082"
_PATIENCE = 5.0
"""Seconds for a manager to respond."""

_LONGEST = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ExplainArguments:
    """The arguments of `explain`."""

    kind: str
    name: str
    namespace: str | None = None
    output: str = "text"
    kubeconfig: str | None = None
    context: str | None = None
    manager: str = _LOCAL
    manager_ca_file: str | None = None
    manager_tls_server_name: str | None = None
    manager_token_file: str | None = None
    manager_namespace: str | None = None


@click.command
@click.argument("named", nargs=-1, metavar="KIND/NAME")
@text_flag("-n", "--namespace", default="of the context", text="namespace of the object")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="text for people, or JSON"
)
@cluster_flags
@click.option(
    "--manager",
    type=manager_url,
    metavar="URL",
    default=_LOCAL,
    help="URL of a manager's console, which reports reconciles; `none` sends no request to a manager",
)
@file_flag("--manager-ca-file", text="CA certificate (PEM) for the manager")
@text_flag(
    "--manager-tls-server-name",
    metavar="HOST",
    default="the host of --manager",
    text="host name in the manager's certificate",
)
@file_flag("--manager-token-file", text="bearer token of a user who may get the object")
@text_flag(
    "--manager-namespace",
    default="PROGRAM-system",
    text="namespace of the shards' leases, which name the object's replica if no manager responds",
)
@pass_invocation
def explain(invocation: Invocation, /, named: tuple[str, ...], **flags: Any) -> int:
    """Explain why an object of one of this program's kinds is not ready.

    The output has the cause, the object's conditions, its children down to the pods, and Events. If a manager
    responds, it also has the last reconciles, their triggers, and the time and reason of the next one. With
    shards, it also names the replica that owns the object.

    A KIND is as for kubectl: Pet, pets, pets.petstore.example.com, or a short name. The exit code is 0 if the
    object is ready, and 3 if it is not.
    """
    what = "/".join(named)
    kind, slash, name = what.partition("/")
    if len(named) > 2 or not slash or not kind or not name or "/" in name:  # noqa: PLR2004 - two words, such as "pet rex"
        raise click.UsageError("KIND/NAME is expected, such as pet/rex")
    arguments = ExplainArguments(kind, name, **flags)
    if arguments.manager_token_file is not None and urlsplit(arguments.manager).scheme != "https":
        raise click.UsageError("--manager-token-file needs an https URL in --manager")
    operators = invocation.operators()
    model = kind_named(kind, [each.kind for each in operators])
    with (
        configured(level="error"),
        asyncio.Runner(loop_factory=loop_factory()) as runner,
        ended_in_one_line(),
    ):
        told = runner.run(_explain(invocation.program, arguments, model, operators))
    if arguments.output == "json":
        sys.stdout.write(json.dumps(to_objects(told), indent=2) + "\n")  # ASCII: names may be in any script
    else:
        coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        sys.stdout.write(to_text(told, COLOURED if coloured else PLAIN))
    return READY if told.ready else NOT_READY


async def _explain(
    program: Program, arguments: ExplainArguments, kind: type[Resource], operators: Sequence[AnyOperator]
) -> Explanation:
    async with connected(program, _COMMAND, kubeconfig=arguments.kubeconfig, context=arguments.context) as (
        transport,
        config,
    ):
        namespace = (arguments.namespace or config.namespace or "default") if kind.namespaced else ""
        key = ObjectKey(namespace, arguments.name)
        found = await Collector(transport, RestMapper(transport), owned_by(operators)).collect(kind.gvk, key)
        uid = found.root.uid
        report, why_none = await _ask(program, arguments, kind, key, uid)
        own = [operator for operator in operators if operator.kind is kind]
        if not report.controllers:
            namespace = arguments.manager_namespace or manager_namespace(program)
            leases = ShardLeases(transport, namespace=namespace, name=program.name)
            report.owners = await _owners(leases, own, uid)
    says = any(operator.has_conditions for operator in own)
    return explain_state(
        found, report.controllers, has_conditions=says, manager=why_none, owners=report.owners
    )


async def _owners(leases: ShardLeases, operators: Sequence[AnyOperator], uid: str) -> list[ShardOwner]:
    """Return the owners of the object's shard; empty without shards, or if the Leases cannot be read."""
    try:
        holders = await leases.read()
    except KubeError:
        return []
    if holders is None:
        return []
    return [holders.owner(name, uid, shared_out=each) for name, each in shared_out_by(operators).items()]


async def _ask(
    program: Program, arguments: ExplainArguments, kind: type[Resource], key: ObjectKey, uid: str
) -> tuple[ManagerReport, str]:
    """Return a manager's report about the object, or an empty report and the reason.

    Raises `ConfigError` if a file in the arguments cannot be used.
    """
    if arguments.manager == "none":
        return ManagerReport([]), ""
    ca, token = arguments.manager_ca_file, arguments.manager_token_file
    server = URL(arguments.manager)
    authorities = None if ca is None else Pem("--manager-ca-file", path=Path(ca))
    config = ClusterConfig(
        server=server,
        source="--manager",
        credentials=FixedCredentials(None)
        if token is None
        else TokenFile(Path(token), label="--manager-token-file"),
        tls=Tls(TlsFiles(authorities)) if server.scheme == "https" else None,
        tls_server_name=arguments.manager_tls_server_name,
    )
    agent = f"{program.agent} {_COMMAND}"
    transport = Transport(HttpWire(config), metrics=Metrics(), rng=random.Random(), user_agent=agent)
    where = "/".join(quote(each, safe="") for each in (f"{kind.plural}.{kind.gvk.group}", *key) if each)
    try:
        async with asyncio.timeout(_PATIENCE):
            body = await _read(transport, f"/api/objects/{where}", {"uid": uid})
        report = decode_report(body)
    except ApiError as error:
        why = f"The manager at {arguments.manager} answers {error.status}: the reconciles are not known."
        return ManagerReport([]), why
    except (TransportError, ProtocolError, TimeoutError, ValueError) as error:
        reason = in_one_line(error) or f"not within {_PATIENCE:g} s"
        why = f"No manager answers at {arguments.manager} ({reason}): the reconciles are not known."
        return ManagerReport([]), why
    finally:
        await transport.aclose()
    own = [each for each in report.controllers if each.uid in (None, uid)]
    if not own:
        why = f"The manager at {arguments.manager} is one of another cluster, or has just started."
        return ManagerReport([]), why
    return ManagerReport(own, report.owners), ""


async def _read(transport: Transport, path: str, query: dict[str, str]) -> bytes:
    """Send a GET without retries, because there is often no manager that could answer."""
    body = bytearray()
    async with transport.stream(path, query=query, idle_timeout=_PATIENCE) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > _LONGEST:
                raise ProtocolError(f"the answer is longer than {_LONGEST} bytes")
    return bytes(body)


def decode_report(answer: bytes) -> ManagerReport:
    """Decode a manager's report. Raises `ValueError` for other content, which any program may send."""
    try:
        report = orjson.loads(shallow_at_once(answer))
        for each in report["controllers"]:
            each["runs"] = [_values_of(ReconcileRecord, run) for run in each["runs"]]
            if each["running"] is not None:
                each["running"] = _values_of(ReconcileRecord, each["running"])
            if each["next"] is not None:
                each["next"]["triggers"] = [_values_of(Trigger, one) for one in each["next"]["triggers"]]
        return msgspec.convert(report, ManagerReport)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a report: {error!r}") from None


def _values_of(kind: type[msgspec.Struct], fields: dict[str, Any]) -> list[Any]:
    """Return the values of `fields` in the order of the struct, which is decoded from an array."""
    return [
        [_values_of(nested, each) for each in fields.get(field.name, ())]
        if (nested := _NESTED.get(field.name)) is not None
        else fields[field.name]
        if field.required
        else fields.get(field.name, field.default)
        for field in msgspec.structs.fields(kind)
    ]


_NESTED: dict[str, type[msgspec.Struct]] = {
    "triggers": Trigger,
    "requests": RequestRecord,
    "events": EventRecord,
}


Style = Mapping[str, str]
Paint = Callable[[str, str], str]

PLAIN: Style = {}
COLOURED: Style = {"good": "\x1b[32m", "bad": "\x1b[31m", "dim": "\x1b[2m", "head": "\x1b[1m"}

_RUNS_SHOWN = 8


def to_text(told: Explanation, style: Style = PLAIN) -> str:
    """Format an explanation as text; only `style` adds control characters, for colours."""
    return "\n".join(_lines(told, style)) + "\n"


def _lines(told: Explanation, style: Style) -> Iterator[str]:
    def paint(text: str, how: str) -> str:
        return f"{style[how]}{text}\x1b[0m" if how in style else text

    name = f"{told.namespace}/{told.name}" if told.namespace else told.name
    how = paint("ready", "good") if told.ready else paint("not ready", "bad")
    yield f"{visible(told.kind)} {visible(name)} is {how}"
    for each in told.blocking:
        yield "  " + paint(f"{visible(each.kind)} {visible(each.name)}: {reason_of(each)}", "bad")
    if told.conditions:
        yield from ("", paint("Conditions", "head"))
        for condition in told.conditions:
            since = paint(ago(condition["lastTransitionTime"]), "dim")
            yield f"  {visible(condition['type'])} {visible(condition['status'])} {since}"
            yield f"    {reason_of(condition)}"
    yield from ("", paint("Objects", "head"))
    yield from _tree_lines(told.tree, "  ", paint)
    if told.events:
        yield from ("", paint("Events", "head"))
        for event in told.events:
            times = f" ({event['count']} times)" if event["count"] != 1 else ""
            warning = paint("Warning ", "bad") if event["type"] == "Warning" else ""
            yield f"  {paint(ago(event['at']), 'dim')} {warning}{reason_of(event)}{times}"
    if told.owners:
        yield from ("", paint("Owning replica", "head"), *_owner_lines(told.owners))
    for report in told.controllers:
        yield from _report_lines(report, paint)
    for note in (told.manager, *(f"not known: {each}" for each in told.missing)):
        if note:
            yield from ("", visible(note))


def _owner_lines(owners: Sequence[ShardOwner]) -> Iterator[str]:
    for owner in owners:
        yield f"  For controller {visible(owner.controller)} the object is in {owner_text(owner)}"
    if any(owner.here is False for owner in owners):
        yield "  The report below is from another replica, and may be outdated."


def _report_lines(report: ControllerReport, paint: Paint) -> Iterator[str]:
    heading = f"Reconciles of controller {visible(report.controller)} ({visible(report.state)})"
    yield from ("", paint(heading, "head"))
    for run in report.runs[-_RUNS_SHOWN:]:
        yield from _run_lines(run, paint)
    yield f"  Next: {next_run(report)}"


def _run_lines(run: ReconcileRecord, paint: Paint) -> Iterator[str]:
    outcome = paint("error", "bad") if run.outcome == "error" else visible(run.outcome)
    sent = [f"{_request_text(each)} {_result_text(each)}" for each in run.requests if each.code != SPARED]
    spared = f", {run.spared} not needed" if run.spared else ""
    did = f"{visible(', '.join(sent)) or 'nothing sent'}{spared}"
    when, took = paint(ago(run.started), "dim"), f"{run.seconds * 1000:.0f} ms"
    yield f"  {when} {outcome} in {took}: {visible(run.why)}; {did}"
    if run.error:
        yield f"    {visible(run.error_type)}: {visible(run.error)}"


def _request_text(request: RequestRecord) -> str:
    if request.code == CALLED:
        return f"{request.verb} {request.path.rpartition('/')[2]}"
    resource, name = resource_and_name(request.path)
    return " ".join(filter(None, (request.verb, resource, request.name or name)))


def _result_text(request: RequestRecord) -> str:
    if request.code == CALLED:
        return request.error or "answered"
    return "no answer" if request.code == NO_ANSWER else str(request.code)


def _tree_lines(node: Node, indent: str, paint: Paint) -> Iterator[str]:
    state = {True: paint("ready", "good"), False: paint("not ready", "bad"), None: ""}[node.ready]
    why = f": {reason_of(node)}" if node.ready is False else ""
    yield f"{indent}{visible(node.kind)} {visible(node.name)} {state}{why}".rstrip()
    for each in node.children:
        yield from _tree_lines(each, indent + "  ", paint)
    for kind, count in node.more.not_ready.items():
        yield f"{indent}  {kind}: {count} more not ready"
    for kind, count in node.more.ready.items():
        yield f"{indent}  {kind}: {count} ready"
