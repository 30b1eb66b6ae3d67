"""Handler of the subresources that do not return the whole object, such as scale and token."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from devcluster.access.tokens import ServiceAccountTokens
from devcluster.api import conversion
from devcluster.api.bodies import decode_object, names_kind
from devcluster.api.deleting import Deleter
from devcluster.api.interfaces import Call
from devcluster.api.negotiation import encode, negotiate
from devcluster.api.options import WriteOptions
from devcluster.api.patching import change_of, is_apply
from devcluster.api.pod_requests import PodRequests
from devcluster.api.reading import Reader, value_at
from devcluster.api.routing import internal_resource
from devcluster.api.writing import Change, Part, Writer, Written, check_name, field_write
from devcluster.errors import StatusError, bad_request, field_invalid, invalid, not_found
from devcluster.http_call import ApiResponse
from devcluster.kinds.ages import age
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Column, Resource
from devcluster.kinds.strategy import Strategy
from devcluster.patch import parent_entries, record_update, scale_entries

Object = dict[str, Any]

_SPEC, _STATUS = (".spec.replicas", ".status.replicas")
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class _ScaleStrategy(Strategy):
    """Strategy of Scale, which defines only its table row."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def row(self, obj: Object) -> list[Any]:
        metadata = obj["metadata"]
        return [
            metadata.get("name", ""),
            obj["spec"].get("replicas", 0),
            obj["status"].get("replicas", 0),
            age(metadata.get("creationTimestamp"), self._writer.clock.now()),
        ]


class ScaleRequests:
    """A handler of requests to the scale subresource."""

    def __init__(self, writer: Writer, reader: Reader, registry: Registry) -> None:
        self._writer = writer
        self._reader = reader
        self._registry = registry
        self._columns = (
            Column("Name"),
            Column("Desired", "integer"),
            Column("Available", "integer"),
            Column("Age"),
        )

    async def serve(self, call: Call, verb: str) -> ApiResponse | None:
        """Answer the request; return None for a verb that a Scale does not support."""
        if verb not in {"get", "update", "patch"}:
            return None
        representation = negotiate(call.request.headers.get("accept", ""), custom=call.resource.custom)
        if verb == "get":
            stored = self._writer.store.get(call.key)
            if stored is None:
                raise not_found(call.resource.group, call.resource.plural, call.name)
            obj = await conversion.read(call.resource, stored)
        else:
            written = await (self._update(call) if verb == "update" else self._patch(call))
            await self._writer.store.durable(written.version)
            obj = written.obj
        data = orjson.dumps(_scale_of(call.resource, obj))
        return await self._reader.one(self._part(call), data, representation)

    async def _update(self, call: Call) -> Written:
        options = WriteOptions.of(call.request.query, "UpdateOptions")
        part = self._part(call)
        scale = decode_object(part, self._registry, options.field_validation)
        check_name(call, scale)

        async def change(_: Object | None) -> Object:
            return copy.deepcopy(scale)

        if call.resource.custom and not names_kind(part):
            # The real server fails to convert such a Scale for comparison, and drops the replicas' managers.
            scale["metadata"].pop("managedFields", None)
            return await self._write(call, change, options)
        return await self._write(call, self._recorded(call, change, options), options)

    async def _patch(self, call: Call) -> Written:
        """Patch the Scale; after an apply, the applier owns the replicas field of the scaled object."""
        part = self._part(call, "scale")
        applies = is_apply(part)
        options = WriteOptions.of(call.request.query, "PatchOptions", apply=applies)
        change = change_of(part, self._registry, options, self._writer.clock)
        if not applies:
            change = self._recorded(call, change, options)
        return await self._write(call, change, options)

    def _recorded(self, call: Call, change: Change, options: WriteOptions) -> Change:
        """Wrap the change of a write that is not an apply, so that it also updates managedFields."""

        async def recorded(scale: Object | None) -> Object:
            before = copy.deepcopy(scale)
            changed = await change(scale)
            write = field_write(self._part(call, "scale"), options, self._writer.clock.timestamp())
            record_update(changed, before, write)
            return changed

        return recorded

    async def _write(self, call: Call, change: Change, options: WriteOptions) -> Written:
        resource = call.resource
        # The path of the desired replicas in each version of the kind that has a scale.
        paths = {
            each.api_version: tuple(_paths(each)[0].lstrip(".").split("."))
            for each in self._registry.versions(resource.group, resource.plural)
            if "scale" in each.subresources
        }

        async def change_parent(live: Object | None) -> Object:
            assert live is not None
            before = _scale_of(resource, live, new=True)
            if entries := scale_entries(live["metadata"].get("managedFields"), paths):
                before["metadata"]["managedFields"] = entries
            part.old = copy.deepcopy(before)
            part.new = scale = await change(before)
            check_name(call, scale)
            replicas = scale.get("spec", {}).get("replicas", 0)
            if replicas < 0 and not resource.custom:
                wrong = field_invalid("spec.replicas", replicas, "must be greater than or equal to 0")
                raise invalid("autoscaling", "Scale", call.name, [wrong])
            metadata, given = live["metadata"], scale["metadata"]
            metadata["resourceVersion"] = given.get("resourceVersion") or metadata["resourceVersion"]
            metadata["uid"] = given.get("uid") or metadata["uid"]
            _take_managers(live, scale, resource, paths)
            put_replicas(live, scale)
            return live

        def put_replicas(obj: Object, scale: Object) -> None:
            _put(obj, _paths(resource)[0], scale.get("spec", {}).get("replicas", 0))

        part = Part(("autoscaling", "v1", "Scale"), put_replicas)
        return await self._writer.update(call, change_parent, options, managed=True, part=part)

    def _part(self, call: Call, subresource: str = "") -> Call:
        """Return a copy of the request that has Scale as its resource, and not the scaled kind."""
        return dataclasses.replace(call, resource=self._resource, subresource=subresource)

    @functools.cached_property
    def _resource(self) -> Resource:
        plain = internal_resource("autoscaling", "v1", "Scale")
        strategy = _ScaleStrategy(self._writer)
        return dataclasses.replace(plain, list_kind="ScaleList", strategy=strategy, columns=self._columns)


def _paths(resource: Resource) -> tuple[str, str, str]:
    """Return the paths of the desired replicas, the current replicas and the selector ("" without a path)."""
    if resource.scale is None:
        return (_SPEC, _STATUS, "")
    return (resource.scale.spec, resource.scale.status, resource.scale.selector)


def _scale_of(resource: Resource, obj: Object, *, new: bool = False) -> Object:
    """Return the Scale of an object; `new` accepts an object that has no replicas yet."""
    spec_path, status_path, selector_path = _paths(resource)
    metadata = {key: obj["metadata"][key] for key in _SHOWN if key in obj["metadata"]}
    wanted, there = value_at(obj, spec_path), value_at(obj, status_path) or 0
    if wanted is None and resource.custom and not new:
        text = f"the spec replicas field {orjson.dumps(spec_path).decode()} does not exist"
        raise StatusError(
            500, "InternalError", f"Internal error occurred: {text}", details={"causes": [{"message": text}]}
        )
    status: Object = {"replicas": there}
    selector = value_at(obj, selector_path) if selector_path else None
    if resource.scale is None:
        selector = _selector_text(
            obj.get("spec", {}).get("selector"), plain=resource.name == "replicationcontrollers"
        )
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def _selector_text(selector: Object | None, *, plain: bool) -> str:
    """Format a label selector as a query; `plain` means that the selector is a map of labels."""
    if not selector:
        return ""
    equal = selector if plain else selector.get("matchLabels") or {}
    parts = [(key, f"{key}={value}") for key, value in equal.items()]
    for each in [] if plain else selector.get("matchExpressions") or ():
        key, values = each["key"], ",".join(sorted(each.get("values") or ()))
        shown = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append((key, shown.get(each["operator"], key)))
    return ",".join(text for _, text in sorted(parts))


def _put(obj: Object, path: str, value: Any) -> None:
    *steps, last = path.lstrip(".").split(".")
    for step in steps:
        obj = obj.setdefault(step, {})
    obj[last] = value


def _take_managers(
    live: Object, scale: Object, resource: Resource, paths: Mapping[str, Sequence[str]]
) -> None:
    metadata = live["metadata"]
    metadata["managedFields"] = parent_entries(
        metadata.get("managedFields"),
        scale["metadata"].get("managedFields"),
        paths,
        api_version=resource.api_version,
        custom=resource.custom,
    )
    if not metadata["managedFields"]:
        del metadata["managedFields"]


_AN_HOUR = 3600
"""The default lifetime of a token, in seconds."""


class Subresources:
    """A handler of requests to subresources."""

    def __init__(self, writer: Writer, deleter: Deleter, reader: Reader, registry: Registry) -> None:
        self._writer = writer
        self._store = writer.store
        self._registry = registry
        self._scale = ScaleRequests(writer, reader, registry)
        self.pods = PodRequests(writer, deleter, registry)
        self.tokens: ServiceAccountTokens | None = None

    async def serve(self, call: Call, verb: str) -> ApiResponse | None:
        """Answer the request, or raise StatusError; return None if the subresource has no such verb."""
        if call.subresource == "scale":
            return await self._scale.serve(call, verb)
        match call.subresource, verb:
            case "binding", "create":
                return await self.pods.bind(call)
            case "eviction", "create":
                return await self.pods.evict(call)
            case "log", "get":
                return self.pods.log(call)
            case "token", "create":
                return await self._token(call)
            case (("exec" | "attach" | "portforward" | "proxy"), _) if call.resource.plural == "pods":
                return await self.pods.connect(call)
            case "proxy", _:
                if self._store.get(call.key) is None:
                    raise not_found(call.resource.group, call.resource.plural, call.name)
                raise bad_request(f"devcluster runs no containers, so it cannot {call.subresource} requests")
            case _:
                return None

    async def _token(self, call: Call) -> ApiResponse:
        options = WriteOptions.of(call.request.query, "CreateOptions")
        kind = internal_resource("authentication.k8s.io", "v1", "TokenRequest")
        asked = decode_object(call, self._registry, options.field_validation, kind=kind)
        stored = self._store.get(call.key)
        if stored is None:
            raise not_found("", call.resource.plural, call.name)
        account = stored.decode()
        for field in ("name", "namespace"):
            given = asked["metadata"].get(field)
            if given and given != account["metadata"][field]:
                raise bad_request(f"must match the {field} of the service account")
        if self.tokens is None:
            raise StatusError(405, "MethodNotAllowed", "this server issues no tokens")
        representation = negotiate(call.request.headers.get("accept", ""))
        spec = asked.setdefault("spec", {})
        if spec.get("expirationSeconds") is None:
            spec["expirationSeconds"] = _AN_HOUR
        await self._writer.record_new(dataclasses.replace(call, resource=kind), asked, options)
        known = {name: account["metadata"][name] for name in ("name", "namespace", "uid")}
        asked["metadata"] = {
            **known,
            "creationTimestamp": self._writer.clock.timestamp(),
            **asked["metadata"],
        }
        asked = await self._writer.admit(call, asked, (kind.group, kind.version, kind.kind), options=options)
        return await encode(self.tokens.issue(account, asked), representation, status=201)
