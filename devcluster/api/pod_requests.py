"""Handler of the pod subresources for binding, eviction, logs, and connections to containers."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from devcluster.api.bodies import decode_object
from devcluster.api.deleting import Deleter
from devcluster.api.interfaces import Call, LogOptions
from devcluster.api.options import DeleteOptions, WriteOptions, boolean_of, integer_of
from devcluster.api.pod_sessions import PodSessions, process_response, tunnel_response
from devcluster.api.routing import internal_resource
from devcluster.api.writing import Writer
from devcluster.errors import (
    FieldError,
    StatusError,
    bad_request,
    conflict,
    field_forbidden,
    field_invalid,
    forbidden,
    invalid,
    not_found,
)
from devcluster.http_call import ApiResponse
from devcluster.kinds import conditions
from devcluster.kinds.registry import Registry
from devcluster.quantity import parse_integer, quoted
from devcluster.storage.records import Key, Stored
from devcluster.storage.selectors import LabelSelector, SelectorError

Object = dict[str, Any]

_BUDGETS = ("policy", "poddisruptionbudgets")
_CONNECTIONS = {"attach": "Attach", "exec": "Exec", "portforward": "PortForward", "proxy": "Proxy"}
_STREAMS = ("stdin", "stdout", "stderr", "tty")
_HIGHEST_PORT = 2**16 - 1
_STILL_PROCESSED = 10
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


class PodRequests:
    """Handler of requests to subresources of pods."""

    def __init__(self, writer: Writer, deleter: Deleter, registry: Registry) -> None:
        self._writer = writer
        self._deleter = deleter
        self._store = writer.store
        self._registry = registry
        self.sessions = PodSessions()

    async def bind(self, call: Call) -> ApiResponse:
        """Assign a pod to a node; a later request cannot change the node."""
        options, binding = self._decode(call, "", "Binding")
        name = call.name or binding["metadata"].get("name", "")
        if name != (binding["metadata"].get("name") or name):
            raise bad_request("name in URL does not match name in Binding object")
        kind = internal_resource("", "v1", "Binding")
        kept = dataclasses.replace(call, resource=kind, name=name, subresource="binding")
        await self._writer.record_new(kept, binding, options)
        binding["metadata"].setdefault("name", name)
        binding["metadata"]["namespace"] = call.namespace
        named = dataclasses.replace(call, name=name)
        binding = await self._writer.admit(named, binding, ("", "v1", "Binding"), options=options)
        target = binding.get("target") or {}
        if target.get("kind", "") not in {"", "Node"}:
            shown = f'Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
            raise StatusError(500, "", f"target.kind: {shown}")
        if not target.get("name"):
            raise StatusError(500, "", "target.name: Required value")
        stored = self._pod(call, name)
        pod = stored.decode()
        metadata, spec = pod["metadata"], pod["spec"]
        if "deletionTimestamp" in metadata:
            text = f"pod {name} is being deleted, cannot be assigned to a host"
            raise conflict("", "pods/binding", name, text)
        if node := spec.get("nodeName"):
            raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{node}"')
        spec["nodeName"] = target["name"]
        for field in ("labels", "annotations"):
            if added := binding["metadata"].get(field):
                metadata[field] = {**metadata.get(field, {}), **added}
        _set_scheduled(pod, self._writer.clock.timestamp())
        if not options.dry_run:
            written = self._store.update(stored.key, pod, expected=stored.version)
            await self._store.durable(written.version)
        return _success()

    async def evict(self, call: Call) -> ApiResponse:
        """Evict a pod if its PodDisruptionBudget allows another disruption."""
        options, eviction = self._decode(call, "policy", "Eviction")
        if eviction["metadata"].get("name", "") != call.name:
            raise bad_request("name in URL does not match name in Eviction object")
        eviction["metadata"]["namespace"] = call.namespace
        eviction = await self._writer.admit(call, eviction, ("policy", "v1", "Eviction"), options=options)
        deletion = DeleteOptions.of(eviction.get("deleteOptions") or {})
        deletion.dry_run = deletion.dry_run or options.dry_run
        stored = self._pod(call, call.name)
        pod = stored.decode()
        phase = pod.get("status", {}).get("phase", "")
        if phase not in {"Succeeded", "Failed", "Pending"} and "deletionTimestamp" not in pod["metadata"]:
            self._check_budget(stored, pod, dry_run=deletion.dry_run)
        deletion.uid = deletion.uid or stored.uid
        # Admission has already allowed the eviction, so the deletion skips admission.
        plain = dataclasses.replace(call, subresource="")
        deleted = await self._deleter.delete(plain, deletion, admitted=True)
        await self._store.durable(deleted.version)
        return _success()

    def _decode(self, call: Call, group: str, kind: str) -> tuple[WriteOptions, Object]:
        """Return the options of a create, and the object in its body, whose kind is `kind` and not Pod."""
        options = WriteOptions.of(call.request.query, "CreateOptions")
        internal = internal_resource(group, "v1", kind)
        return options, decode_object(call, self._registry, options.field_validation, kind=internal)

    async def connect(self, call: Call) -> ApiResponse:
        """Connect to a container by WebSocket, after admission; requests to a pod's proxy are refused."""
        query, options = call.request.query, f"Pod{_CONNECTIONS[call.subresource]}Options"
        asked: Object = {"kind": options, "apiVersion": "v1"}
        asked |= {name: True for name in _STREAMS if boolean_of(query, name)}
        if container := call.request.option("container"):
            asked["container"] = container
        if call.subresource == "exec":
            asked["command"] = query.get("command")
        if call.subresource == "portforward" and "ports" in query:
            asked["ports"] = list(map(_port, ",".join(query["ports"]).split(",")))
        if call.subresource == "proxy" and (path := call.request.path.partition("/proxy")[2]):
            asked["path"] = path
        await self._writer.admit(call, asked, ("", "v1", options), operation="CONNECT")
        if call.subresource != "proxy":
            self._check_may_create(call)
        pod = self._pod(call, call.name).decode()
        if call.subresource == "proxy":
            raise bad_request("devcluster runs no containers, so it cannot proxy requests")
        if call.subresource == "portforward":
            _check_has_node(pod)
            return tunnel_response(
                call.request, asked.get("ports") or (), partial(self.sessions.connect, pod)
            )
        return self._into_process(call, pod, asked)

    def _check_may_create(self, call: Call) -> None:
        """Raise StatusError, 403, unless the user may `create` the subresource, even if the method is GET."""
        try:
            self._writer.may_create(call)
        except StatusError:
            raise forbidden("", "pods", call.name, "") from None  # the real server hides the permission

    def _into_process(self, call: Call, pod: Object, asked: Object) -> ApiResponse:
        _check_process(call, asked)
        container = _container(pod, asked.get("container", ""))
        _check_has_node(pod)
        command = asked.get("command") or ()
        return process_response(call.request, partial(self.sessions.run, pod, container, command))

    def log(self, call: Call) -> ApiResponse:
        """Return the container's log as a stream."""
        query = call.request.query
        wanted = {name: integer_of(query, name) for name in ("tailLines", "sinceSeconds", "limitBytes")}
        since = _time(call.request.option("sinceTime"))
        errors = _log_errors(wanted, both="sinceTime" in query and wanted["sinceSeconds"] is not None)
        if errors:
            raise invalid("", "PodLogOptions", call.name, errors)
        pod = self._pod(call, call.name).decode()
        container = _container(pod, call.request.option("container"))
        if wanted["sinceSeconds"] is not None:
            now = self._writer.clock.now()
            since = now - datetime.timedelta(seconds=min(wanted["sinceSeconds"], int(now.timestamp())))
        if not pod["spec"].get("nodeName") or self.sessions.logs is None:
            return ApiResponse(content_type="text/plain")
        options = LogOptions(
            follow=bool(boolean_of(query, "follow")),
            tail_lines=wanted["tailLines"],
            since=since,
            timestamps=bool(boolean_of(query, "timestamps")),
            previous=bool(boolean_of(query, "previous")),
        )
        lines = self.sessions.logs(pod, container, options)
        limit = wanted["limitBytes"]
        return ApiResponse(
            content_type="text/plain", stream=lines if limit is None else _limited(lines, limit)
        )

    def _pod(self, call: Call, name: str) -> Stored:
        stored = self._store.get(Key("", "pods", call.namespace, name))
        if stored is None:
            raise not_found("", "pods", name)
        return stored

    def _check_budget(self, stored: Stored, pod: Object, *, dry_run: bool) -> None:
        """Use up one disruption of the pod's PodDisruptionBudget; raise StatusError, 429, if none is left."""
        budgets = [
            each for each in self._store.select(*_BUDGETS, stored.key.namespace) if _covers(each, stored)
        ]
        if not budgets:
            return
        if len(budgets) > 1:
            text = (
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
                "support."
            )
            raise StatusError(500, "InternalError", text)
        budget = budgets[0].decode()
        spec, status = budget["spec"], budget.setdefault("status", {})
        name, healthy = budget["metadata"]["name"], status.get("currentHealthy", 0)
        if not conditions.is_true(pod, "Ready"):
            always = spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            desired = status.get("desiredHealthy", 0)
            if always or (desired > 0 and healthy >= desired):
                return
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            raise _refused(
                f"The disruption budget {name} is still being processed by the server.", _STILL_PROCESSED
            )
        allowed = status.get("disruptionsAllowed", 0)
        if allowed <= 0:
            raise _refused(
                f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
                f"{healthy} currently"
            )
        if dry_run:
            return
        status["disruptionsAllowed"] = allowed - 1
        status.setdefault("disruptedPods", {})[stored.key.name] = self._writer.clock.timestamp()
        self._store.update(budgets[0].key, budget, expected=budgets[0].version)


def _check_has_node(pod: Object) -> None:
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")


def _check_process(call: Call, asked: Object) -> None:
    """Raise StatusError, 400, for an exec or attach request that the kubelet would refuse."""
    if not any(asked.get(name) for name in ("stdin", "stdout", "stderr")):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    if call.subresource == "exec" and not asked.get("command"):
        raise bad_request("you must specify at least 1 command for the container")


def _success() -> ApiResponse:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return ApiResponse.json(status, status=201)


def _refused(cause: str, retry_after: int | None = None) -> StatusError:
    details = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    return StatusError(429, "TooManyRequests", _VIOLATES, details=details, retry_after=retry_after)


def _covers(budget: Stored, pod: Stored) -> bool:
    try:
        return LabelSelector.of(budget.decode().get("spec", {}).get("selector")).matches(pod.labels)
    except SelectorError:
        return False


def _set_scheduled(pod: Object, now: str) -> None:
    scheduled: Object = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    if generation := pod["metadata"].get("generation"):
        scheduled["observedGeneration"] = generation
    status = pod.setdefault("status", {})
    status["conditions"] = conditions.replaced(status.get("conditions") or (), scheduled)


def _container(pod: Object, wanted: str) -> str:
    """Return the name of the requested container, by default the only one; raise StatusError, 400."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    containers, initial, ephemeral = (
        [each["name"] for each in spec.get(field) or ()]
        for field in ("containers", "initContainers", "ephemeralContainers")
    )
    if wanted:
        if wanted not in (*containers, *initial, *ephemeral):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(containers) == 1:
        return str(containers[0])
    text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]"
    if initial:
        text += f" or one of the init containers: [{' '.join(initial)}]"
    if ephemeral:
        text += f" or one of the ephemeral containers: [{' '.join(ephemeral)}]"
    raise bad_request(text)


def _log_errors(wanted: dict[str, int | None], *, both: bool) -> list[FieldError]:
    errors = []
    tail, limit, since = wanted["tailLines"], wanted["limitBytes"], wanted["sinceSeconds"]
    if tail is not None and tail < 0:
        errors.append(field_invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        errors.append(field_invalid("limitBytes", limit, "must be greater than 0"))
    if both:
        errors.append(field_forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since is not None and since < 1:
        errors.append(field_invalid("sinceSeconds", since, "must be greater than 0"))
    return errors


def _port(text: str) -> int:
    """Return the port that a text contains; raise StatusError, 400, if it contains none."""
    number = parse_integer(text) if text[:1] not in {"+", "-"} else None
    if number is not None and number <= _HIGHEST_PORT:
        return number
    why = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    raise bad_request(f"cannot convert to []int32: strconv.ParseUint: parsing {quoted(text)}: {why}")


def _time(text: str) -> datetime.datetime | None:
    if not text:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise bad_request(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


async def _limited(lines: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    left = limit
    async for chunk in lines:
        yield chunk[:left]
        left -= len(chunk)
        if left <= 0:
            return
