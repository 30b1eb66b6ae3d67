"""The subresources other than status, with their verbs."""

from __future__ import annotations

import dataclasses
from typing import Any

from devcluster.api.bodies import decode_object
from devcluster.api.deleting import Deleter
from devcluster.api.interfaces import Tokens
from devcluster.api.negotiation import encode, negotiate
from devcluster.api.options import WriteOptions
from devcluster.api.pod_requests import PodRequests
from devcluster.api.reading import Reader
from devcluster.api.request_context import Call
from devcluster.api.routing import internal_resource
from devcluster.api.scale import ScaleRequests
from devcluster.api.writing import Writer
from devcluster.errors import StatusError, bad_request, not_found
from devcluster.http_call import ApiResponse
from devcluster.kinds.registry import Registry

__all__ = ["Subresources"]

Object = dict[str, Any]

_AN_HOUR = 3600
"""The default lifetime of a token, in seconds."""


class Subresources:
    """The answers to requests of subresources."""

    def __init__(self, writer: Writer, deleter: Deleter, reader: Reader, registry: Registry) -> None:
        self._writer = writer
        self._store = writer.store
        self._registry = registry
        self._scale = ScaleRequests(writer, reader, registry)
        self.pods = PodRequests(writer, deleter, registry)
        self.tokens: Tokens | None = None

    async def serve(self, call: Call, verb: str) -> ApiResponse | None:
        """Answer the request; None when the subresource does not have the verb.

        Raises:
            StatusError: the request is refused.
        """
        if call.subresource == "scale":
            return await self._scaled(call, verb)
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
                return self._unconnected(call)
            case _:
                return None

    async def _scaled(self, call: Call, verb: str) -> ApiResponse | None:
        answers = {"get": self._scale.get, "update": self._scale.update, "patch": self._scale.patch}
        if verb not in answers:
            return None
        accept = call.request.headers.get("accept", "")
        return await answers[verb](call, negotiate(accept, custom=call.resource.custom))

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
        asked = await self._writer.admit(
            call,
            asked,
            (kind.group, kind.version, kind.kind),
            options=options.to_object("CreateOptions"),
            dry_run=options.dry_run,
        )
        return encode(self.tokens.issue(account, asked), representation, status=201)

    def _unconnected(self, call: Call) -> ApiResponse:
        if self._store.get(call.key) is None:
            raise not_found(call.resource.group, call.resource.plural, call.name)
        raise bad_request(f"devcluster runs no containers: {call.subresource} leads nowhere")
