"""Fuzz targets: functions that parse external input, and that may raise only their declared errors."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest import TestCase

import orjson
import yaml
from aiohttp import web
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from controllers.main import OPERATORS
from manager.api import GroupVersionKind, ObjectKey
from manager.cache.record import RecordDecoder
from manager.cache.reflector import decode_bookmark, version_of
from manager.cache.spec import Selector, WatchSpec
from manager.certificates.rotation import Rotation
from manager.certificates.store import Material
from manager.client.comparison import matches
from manager.client.managed_fields import Ownership
from manager.election.lease import Lease
from manager.kube.config import _find
from manager.kube.connection import Connection
from manager.kube.decoding import decode_event, decode_list, lines
from manager.kube.errors import ApiError, ConfigError, ConnectionLost, ProtocolError, error_from, status_error
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.server.access import claims_of
from manager.server.server import serve
from manager.settings import SettingsError
from manager.telemetry.metrics import Metrics
from manager.tls.certificate import new_authority
from manager.tls.key_pair import CertificateUnusable
from manager.util.address import BindAddress, parse_address
from manager.util.duration import parse_duration
from manager.webhook.admission import AdmissionEndpoint
from manager.webhook.conversion import ConversionEndpoint
from manager.webhook.endpoint import BadReview
from manager.webhook.registration import Admission, Conversion
from manager_console.changes import Change, fields_of
from manager_console.diagnosis.collect import Collected, Collector, Node, bad_leaves
from manager_console.diagnosis.explanation import explain, to_objects
from manager_console.web import read_assets
from manager_tools.commands.explain import decode_report, to_text
from tests.fuzz import inputs
from tests.support.admission import webhooks_of
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.support.settings import FIELDS, load_declared, load_settings

__all__ = ["TARGETS", "run"]

SECONDS = 5.0
"""Maximum CPU seconds for one example."""

MEGABYTES = 200
"""Maximum growth of the process's peak memory by one example."""

# Encoded and decoded, because aliases in YAML share one object, which a change would change everywhere.
originals = SimpleNamespace(
    **orjson.loads(orjson.dumps(yaml.safe_load(Path(__file__).with_name("originals.yaml").read_text())))
)

Check = Callable[..., None]

TARGETS: dict[str, tuple[dict[str, st.SearchStrategy[Any]], Check]] = {}


def target(**strategies: st.SearchStrategy[Any]) -> Callable[[Check], Check]:
    """Register a check as a fuzz target; a Hypothesis strategy generates the values of each argument."""

    def add(check: Check) -> Check:
        TARGETS[check.__name__.replace("_", "-")] = (strategies, check)
        return check

    return add


def run(name: str, *, examples: int, number: int) -> None:
    """Call a target with `examples` random inputs from the seed `number`; raise the error if a call fails."""
    strategies, check = TARGETS[name]

    def bounded(**arguments: Any) -> None:
        memory, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        check(**arguments)
        seconds = time.process_time() - started
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) // 1024
        assert seconds < SECONDS, f"it took {seconds:.1f} s"
        assert grown < MEGABYTES, f"it took {grown} MB"

    trying = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    with capture_logs():
        trying(seed(number)(given(**strategies)(bounded)))()


# Data from an API server.

PAGE = {"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": ""}, "items": [originals.pod]}
EVENTS = [
    *({"type": "MODIFIED", "object": originals.pod}, {"type": "BOOKMARK", "object": originals.bookmark}),
    {"type": "ERROR", "object": originals.status},
]
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nLate: 1\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 \r\nConnection: close\r\nWarning: 299 - a\r\n\r\n404",
    b'HTTP/1.1 429 Slow\r\nRetry-After: 10\r\nContent-Length: 17\r\n\r\n{"kind":"Status"}',
]
RETRY_AFTER = [
    "10",
    "Wed, 21 Oct 2026 07:28:00 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
]


class Line(asyncio.Transport):
    """Transport that accepts and discards all data."""

    _closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Discard the data."""

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    abort = close


@target(answer=inputs.mutated(ANSWERS), size=st.integers(1, 4096))
def http_answers(answer: bytes, size: int) -> None:
    async def ask() -> None:
        line, connection = Line(), Connection()
        connection.connection_made(line)
        asking = asyncio.ensure_future(connection.ask(b"GET / HTTP/1.1\r\n\r\n", b"", None))
        await asyncio.sleep(0)
        for start in range(0, len(answer), size):
            if not line.is_closing():
                connection.data_received(answer[start : start + size])
        connection.connection_lost(None)
        with suppress(ConnectionLost):
            got = await asking
            assert isinstance(error_from(got.status, got.headers, await got.read()), ApiError)

    asyncio.run(ask())


@target(
    status=st.integers(0, 999),
    body=inputs.odd_json([originals.status]),
    after=st.one_of(st.none(), inputs.texts(), inputs.mutated([each.encode() for each in RETRY_AFTER])),
)
def error_answers(status: int, body: bytes, after: str | bytes | None) -> None:
    text = after.decode("latin-1") if isinstance(after, bytes) else after
    error = error_from(status, {} if text is None else {"Retry-After": text}, body)
    assert error.retry_after is None or 0 <= error.retry_after <= 300
    assert len(str(error)) <= len(body) + 400


@target(
    stream=st.lists(inputs.odd_json(EVENTS), max_size=4), cut=st.integers(1, 100_000), partial=st.booleans()
)
def watch_lines(stream: list[bytes], cut: int, partial: bool) -> None:
    whole = b"\n".join(stream) + b"\n"
    decoder = RecordDecoder(
        GroupVersionKind("", "v1", "Pod"), field_manager="operator-manager", metadata_only=partial
    )

    async def arriving() -> Any:
        for start in range(0, len(whole), cut):
            yield whole[start : start + cut]

    async def read() -> None:
        async for line in lines(arriving(), limit=1_000_000):
            with suppress(ProtocolError):
                event = decode_event(line)
                if event.type == "ERROR":
                    assert isinstance(status_error(event.object), ApiError)
                elif event.type == "BOOKMARK":
                    decode_bookmark(event.object)
                else:
                    record, meta = decoder(event.object)
                    assert record.key.name == meta.name

    with suppress(ProtocolError):
        asyncio.run(read())


@target(page=inputs.odd_json([PAGE]), partial=st.booleans())
def lists(page: bytes, partial: bool) -> None:
    decoder = RecordDecoder(
        GroupVersionKind("", "v1", "Pod"), field_manager="operator-manager", metadata_only=partial
    )
    with suppress(ProtocolError):
        found = decode_list(page)
        version_of(found.metadata.resource_version, "a list")
        for item in found.items or ():
            decoder(item)


@target(entries=inputs.odd_json([originals.managed]), live=inputs.odd([originals.owning]))
def records_of_ownership(entries: bytes, live: Any) -> None:
    try:
        managed = orjson.loads(entries)
    except ValueError:
        return
    if not isinstance(managed, list) or not all(isinstance(entry, dict) for entry in managed):
        return  # an Ownership gets only lists of objects
    own = Ownership({"metadata": {"managedFields": managed}}, "test")
    own.takeover()
    for owned in (own.applied, own.created):
        if owned is not None:
            for exact in (False, True):
                assert matches(originals.owning, live, owned, exact=exact) in {True, False}


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@target(body=inputs.odd_json([originals.lease]))
def leases(body: bytes) -> None:
    with suppress(ProtocolError):
        lease = Lease.decode(body)
        said = (lease.holder, lease.duration, lease.transitions, lease.uid, lease.version)
        assert [type(each) for each in said[::3]] == [str, str]
        for made in (
            lease.claimed(identity="a", seconds=15, now=NOW),
            lease.released(now=NOW),
            lease.recreated(),
        ):
            made.encode()


AUTHORITY = new_authority("an authority", NOW, timedelta(days=1))
PAIR = AUTHORITY.issue(["a.example.com"], NOW, timedelta(days=1))
PEMS = [AUTHORITY.certificate, PAIR.certificates, PAIR.key, b"", PAIR.certificates + AUTHORITY.certificate]


@target(
    entries=st.fixed_dictionaries(
        {name: inputs.mutated(PEMS, most=1500) for name in ("tls.crt", "tls.key", "ca.crt", "ca.key")}
    )
)
def certificates(entries: dict[str, bytes]) -> None:
    stored = Rotation(Material(*entries.values()), NOW)
    assert all(signer.public_key in stored.keys for signer in stored.signers)
    assert stored.serving is None or stored.serving.pem
    if (pair := stored.material.pair) is not None:
        with suppress(CertificateUnusable):
            pair.context()


TOKENS = [b"eyJhbGciOiJSUzI1NiJ9.eyJleHAiOjE3NjcyMjU2MDAsInN1YiI6ImEifQ.c2ln", b"a.b.c", b"opaque"]


@target(token=st.one_of(inputs.texts(), inputs.mutated(TOKENS).map(lambda data: data.decode("latin-1"))))
def tokens(token: str) -> None:
    assert claims_of(token).have_expired in {True, False}


# Files and flags.


def yaml_of(document: Any) -> bytes:
    """Encode a document as YAML in block style; return b"" if it cannot be encoded."""
    with suppress(yaml.YAMLError):
        return yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "replace")
    return b""


# Few bytes that expand to many: aliases of aliases, and mappings that merge each other.
ALIASES = [
    f"k0: &k0 {first}\n" + "".join(f"k{n + 1}: &k{n + 1} {then.format(n)}\n" for n in range(60))
    for first, then in (("{a: b}", "{{<<: [*k{0}, *k{0}]}}"), ("[a, b]", "[*k{0}, *k{0}]"))
]


def odd_yaml(documents: list[Any]) -> st.SearchStrategy[bytes]:
    """Return a Hypothesis strategy that generates odd YAML, with few repetitions as the parser is slow."""
    written = [yaml_of(each) for each in documents]
    return st.one_of(
        inputs.odd(documents).map(yaml_of),
        inputs.mutated(written, most=1500),
        inputs.bombs(1500),
        st.sampled_from(ALIASES).map(str.encode),
    )


def in_file(content: bytes, read: Callable[[str], object]) -> None:
    """Write the content to a temporary file and call `read` with its path."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(content)
        read(str(path))


@target(content=odd_yaml(originals.kubeconfigs))
def kubeconfig(content: bytes) -> None:
    with suppress(ConfigError):
        in_file(content, lambda path: _find(path, None, {}))


DECLARED = [setting for operator in OPERATORS for setting in operator.declared_settings]


@target(content=odd_yaml([originals.settings]))
def settings_file(content: bytes) -> None:
    def read(path: str) -> None:
        load_settings({"config": path}, DECLARED)
        load_declared(DECLARED, {"config": path})

    with suppress(SettingsError):
        in_file(content, read)


@target(
    field=st.sampled_from([name for name in FIELDS if name != "config"]),
    setting=st.sampled_from(DECLARED),
    text=inputs.texts(),
)
def flags(field: str, setting: Any, text: str) -> None:
    with suppress(SettingsError):
        load_settings({field: text})
    with suppress(SettingsError):
        load_declared([setting], {setting.name: text})
    for parse in (parse_duration, parse_address):
        with suppress(ValueError):
            parse(text)


SELECTORS = [
    b"app=web,tier!=cache,env in (a,b),env notin (c),owner,!legacy",
    b"example.com/app==a-b.c_d, x in ()",
]


@target(text=st.one_of(inputs.texts(), inputs.mutated(SELECTORS).map(lambda data: data.decode("latin-1"))))
def selectors(text: str) -> None:
    with suppress(ValueError):
        selector = Selector.parse(text)
        assert Selector.parse(str(selector)) == selector
        selector.matches({"app": "web"})


# Requests to webhooks, and the answers.

SPECS: dict[str, Any] = {
    "Memcached": {"size": 3, "port": 11211},
    "Wordpress": {"sqlRootPassword": "s3cret", "size": 1},
    "Pet": originals.pet,
}


def review_of(admission: Admission[Any], operation: str) -> dict[str, Any]:
    """Return an AdmissionReview in the form in which the API server sends it."""
    gvk, spec = admission.kind.gvk, SPECS[admission.kind.gvk.kind]
    kind = {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}
    new = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": originals.metadata, "spec": spec}
    request = {
        **originals.review,
        "kind": kind,
        "resource": {"group": gvk.group, "version": gvk.version, "resource": admission.kind.plural},
        "requestKind": kind,
        "operation": operation,
        "object": None if operation == "DELETE" else new,
        "oldObject": None if operation == "CREATE" else new,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


WEBHOOKS = webhooks_of(*OPERATORS)
ADMISSIONS = [each for each in WEBHOOKS if isinstance(each, Admission)]
REVIEWS = [review_of(each, operation) for each in ADMISSIONS for operation in ("CREATE", "UPDATE", "DELETE")]
PANICS = Metrics().webhook_panics
ENDPOINTS = [AdmissionEndpoint(one, panics=PANICS) for each in ADMISSIONS for one in each.webhooks]


@target(endpoint=st.sampled_from(ENDPOINTS), body=inputs.odd_json(REVIEWS))
def admission_reviews(endpoint: AdmissionEndpoint, body: bytes) -> None:
    with suppress(BadReview):
        assert orjson.loads(asyncio.run(endpoint.answer(body)))["response"]["uid"]


def conversion_review(version: str, spec: dict[str, Any], *, to: str) -> dict[str, Any]:
    """Return a ConversionReview of two objects in the form in which the API server sends it."""
    group = "petstore.example.com"
    pet = {"apiVersion": f"{group}/{version}", "kind": "Pet", "metadata": originals.metadata, "spec": spec}
    pets = [{**pet, "status": {"id": "i"}} for _ in range(2)]
    request = {"uid": "review-1", "desiredAPIVersion": f"{group}/{to}", "objects": pets}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


CONVERSIONS = [
    conversion_review("v1beta1", originals.pet, to="v1alpha1"),
    conversion_review("v1alpha1", originals.old_pet, to="v1beta1"),
]


@target(body=inputs.odd_json(CONVERSIONS))
def conversion_reviews(body: bytes) -> None:
    metrics = Metrics()
    endpoint = ConversionEndpoint(
        [each for each in WEBHOOKS if isinstance(each, Conversion)], panics=metrics.conversion_panics
    )
    with suppress(BadReview):
        assert orjson.loads(asyncio.run(endpoint.answer(body)))["response"]["uid"]
    panics = "controller_runtime_conversion_webhook_panics_total"
    assert not metrics.registry.get_sample_value(panics), "a function raised an undeclared error"


# Objects for `explain` and the console's pages.


def owned(name: str, uid: str, owner: str = "f", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "ownerReferences": [{"uid": owner}]}
    return {"metadata": metadata, "status": {"conditions": [originals.condition]}, **more}


SELECTOR = originals.root["spec"]["selector"]
KINDS = {
    GroupVersionKind("apps", "v1", "Deployment"): owned(
        "web", "d", spec={"replicas": 2, "selector": SELECTOR}, status={"readyReplicas": 1}
    ),
    GroupVersionKind("apps", "v1", "DaemonSet"): owned("each", "s", status={"desiredNumberScheduled": 1}),
    GroupVersionKind("batch", "v1", "Job"): owned("once", "j"),
    GroupVersionKind("example.com", "v1", "Foo"): owned("other", "o"),
    GroupVersionKind("", "v1", "PersistentVolumeClaim"): owned("data", "c", status={"phase": "Pending"}),
    GroupVersionKind("", "v1", "Pod"): owned("web", "p", **originals.bad_pod),
}
REPLICA_SET = owned(
    "web-1", "r", "d", spec={"replicas": 1, "selector": SELECTOR}, status={"readyReplicas": 0}
)
FAILS = orjson.dumps(
    owned(
        "fails", "q", status={"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
    )
)
"""A valid pod among the odd objects."""

PAGES = read_assets().environment


def odd_object(original: Any) -> st.SearchStrategy[bytes]:
    return inputs.odd([original]).map(inputs.dumped)


def listed(found: list[bytes]) -> bytes:
    return b'{"metadata":{"resourceVersion":"1"},"items":[%b]}' % b",".join(found)


@target(
    root=odd_object(originals.root),
    children=st.tuples(*(st.lists(odd_object(each), max_size=2) for each in KINDS.values())),
    below=odd_object(REPLICA_SET),
    events=st.lists(odd_object(originals.event), max_size=3),
    page=inputs.odd_json([{"metadata": {"continue": "more"}, "items": [owned("once", "j")]}]),
)
def explanations(
    root: bytes, children: tuple[list[bytes], ...], below: bytes, events: list[bytes], page: bytes
) -> None:
    wire = ScriptedWire()
    gvks = [*KINDS, GroupVersionKind("apps", "v1", "ReplicaSet")]
    for group in {each.api_version: each for each in gvks}.values():
        served = [each.kind for each in gvks if each.api_version == group.api_version]
        resources = [
            {"name": f"{each.lower()}s", "kind": each, "namespaced": True, "verbs": []} for each in served
        ]
        wire.on("GET", place_of(group), Reply.json({"resources": resources}))
    for gvk, found in zip(gvks, (*children, [below]), strict=True):
        here = f"{place_of(gvk)}/namespaces/ns/{gvk.kind.lower()}s"
        pods = [FAILS] if gvk.kind == "Pod" else []
        wire.on("GET", f"{here}*", Reply(200, page if gvk.kind == "Job" else listed([*found, *pods])))
        wire.on("GET", f"{here}/*", Reply(200, found[0] if found else b"{}"))
    wire.on("GET", "/api/v1/namespaces/ns/events*", Reply(200, listed(events)))
    wire.on("GET", "/apis/example.com/v1/namespaces/ns/foos/foo", Reply(200, root))

    async def look() -> Collected:
        transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="fuzz")
        foo = GroupVersionKind("example.com", "v1", "Foo")
        collector = Collector(transport, RestMapper(transport), {foo: KINDS})
        return await collector.collect(foo, ObjectKey("ns", "foo"))

    try:
        found = asyncio.run(look())
    except ProtocolError:
        assert not isinstance(orjson.loads(root), dict)
        return
    told = explain(found, [], has_conditions=True)
    if found.root.uid == "f":
        names = [each.name for each in found.root.children if each.kind == "Pod"]
        assert "fails" in names, "odd objects hide the valid pod"
    lines = to_text(told).splitlines()
    assert all(each.isprintable() for each in lines)
    assert len(lines) < 500
    shown_as_json = to_objects(told)
    assert orjson.loads(json.dumps(shown_as_json)) == shown_as_json
    shown = {"kind": "Foo", "key": ObjectKey("ns", "foo"), "resource": "foos.example.com", "problem": ""}
    text = PAGES.get_template("object.html").render(
        **shown, told=told, below=bad_leaves(found.root), runs=[], changes=[], live="", version=""
    )
    assert len(text.encode()) < 1_000_000


def place_of(gvk: GroupVersionKind) -> str:
    return f"/apis/{gvk.api_version}" if gvk.group else f"/api/{gvk.version}"


@target(answer=inputs.odd_json([originals.manager]))
def manager_answers(answer: bytes) -> None:
    """Parse a response that `explain` gets when another program listens on the manager's port."""
    with suppress(ValueError):
        report = decode_report(answer)
        found = Collected({}, Node("Foo", "ns", "foo", "f", None), [], [])
        told = explain(found, report.controllers, has_conditions=True, owners=report.owners)
        assert all(each.isprintable() for each in to_text(told).splitlines())
        json.dumps(to_objects(told), indent=2)


@target(
    before=inputs.odd([originals.root, *KINDS.values()]), after=inputs.odd([originals.root, *KINDS.values()])
)
def last_changes(before: Any, after: Any) -> None:
    states = [inputs.dumped({**each, "metadata": originals.root["metadata"]}) for each in (before, after)]
    spec = WatchSpec(gvk=GroupVersionKind("example.com", "v1", "Foo"), plural="foos")
    found = fields_of(Change(spec, ObjectKey("ns", "foo"), 0.0, *states))
    assert all(isinstance(text, str) for field in found for text in field)


# Requests to our servers.

REQUESTS = [
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /healthz?verbose&exclude=a HTTP/1.0\r\nAuthorization: Bearer x\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n0",
    # More digits than int() takes.
    b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"0" * 5000 + b"2\r\n\r\n{}",
]


@target(request=inputs.mutated(REQUESTS))
def request_heads(request: bytes) -> None:
    async def ask(port: int, data: bytes, seconds: float) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(seconds):
                    return await reader.read()
            return b""
        finally:
            writer.close()

    async def check() -> None:
        async def page(_: web.Request) -> web.StreamResponse:
            return web.Response(text="ok")

        async with serve("fuzz", BindAddress("127.0.0.1", 0), [web.get("/healthz", page)]) as server:
            await ask(server.address.port, request, 0.02)
            honest = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            answer = await ask(server.address.port, honest, 60)
            assert answer.endswith(b"ok"), answer

    with TestCase().assertNoLogs(level=logging.ERROR):
        asyncio.run(check())
