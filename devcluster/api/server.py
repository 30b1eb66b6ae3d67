"""API server: it turns a request into a response."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import orjson

from devcluster.access.authentication import ANONYMOUS, Authenticator
from devcluster.access.rbac import Attributes, RbacAuthorizer, refusal
from devcluster.access.reviews import AccessReviews
from devcluster.access.tokens import ServiceAccountTokens
from devcluster.api import conversion, negotiation
from devcluster.api.bodies import decode_object
from devcluster.api.deleting import Deleted, Deleter, decode_delete_options
from devcluster.api.discovery import page_not_found
from devcluster.api.interfaces import Admission, Call
from devcluster.api.metrics import Metrics
from devcluster.api.negotiation import Representation, encode, negotiate
from devcluster.api.options import DeleteOptions, ListOptions, WriteOptions
from devcluster.api.patching import change_of, is_apply
from devcluster.api.plain_paths import PlainPaths
from devcluster.api.reading import Reader, Selection
from devcluster.api.routing import target_of
from devcluster.api.subresources import Subresources
from devcluster.api.syntax import TOO_DEEP
from devcluster.api.watching import Watcher
from devcluster.api.writing import Writer, Written, check_name
from devcluster.clock import Clock
from devcluster.errors import StatusError, bad_request, internal_error, method_not_allowed, not_found
from devcluster.http_call import ApiRequest, ApiResponse, ConnectionCut, User
from devcluster.kinds.metadata import match_namespace
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.storage.records import JournalFailed
from devcluster.storage.selectors import FieldSelector, SelectorError
from devcluster.storage.store import Store

Object = dict[str, Any]

_log = logging.getLogger(__name__)

MINIMUM_WATCH_TIMEOUT = 1800.0
# The verbs of requests that name an object.
_NAMED = frozenset({"get", "update", "patch", "delete"})
_PARTS = frozenset({"status", "finalize", "approval", "ephemeralcontainers", "resize"})
"""Subresources that return the whole object and change only a part of it."""
_COLLECTION = frozenset({"list", "watch", "create", "deletecollection"})


class ApiServer:
    """API server, which answers requests.

    Arguments with the default None are optional. Without an authorizer, every action is allowed.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        clock: Clock,
        rng: random.Random,
        authenticator: Authenticator | None = None,
        authorizer: RbacAuthorizer | None = None,
        admission: Admission | None = None,
        reviews: AccessReviews | None = None,
        tokens: ServiceAccountTokens | None = None,
        min_request_timeout: float = MINIMUM_WATCH_TIMEOUT,
        sharded_lists: bool = False,
    ) -> None:
        """Set up the server. A watch without a timeout lasts one to two times `min_request_timeout` seconds.

        With `sharded_lists`, lists and watches accept a `shardSelector`; otherwise the server ignores it.
        """
        self.store = store
        self.registry = registry
        self.authenticator = authenticator
        self.authorizer = authorizer
        self.reviews = reviews
        self.writer = Writer(store, clock=clock, rng=rng)
        self.writer.admission = admission
        self.writer.may_create = self._check_create
        self.deleter = Deleter(self.writer)
        self.reader = Reader(store, clock=clock)
        self.watcher = Watcher(store, self.reader, clock=clock, rng=rng, minimum_timeout=min_request_timeout)
        self.subresources = Subresources(self.writer, self.deleter, self.reader, registry)
        self.subresources.tokens = tokens
        self.metrics = Metrics()
        self.plain_paths = PlainPaths(registry, store, self.metrics)
        self._clock = clock
        self._sharded_lists = sharded_lists
        self._verbs: dict[str, Callable[[Call, Representation], Awaitable[ApiResponse]]] = {
            "get": self.reader.get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def handle(self, request: ApiRequest) -> ApiResponse:
        """Answer one request. Errors become responses; only a lost connection and cancellation are raised."""
        try:
            return await self._handle(request)
        except StatusError as error:
            return negotiation.failure(error, request.headers.get("accept", ""))
        except ConnectionCut:
            raise
        except (RecursionError, orjson.JSONEncodeError) as error:
            _log.warning(
                "refused %s %s: the object is nested too deeply: %s", request.method, request.path, error
            )
            return negotiation.failure(bad_request(TOO_DEEP), request.headers.get("accept", ""))
        except JournalFailed as error:  # the journal has already logged the error
            return ApiResponse.failure(internal_error(str(error)))
        except Exception:  # noqa: BLE001 -- no request may stop the server
            _log.exception("request %s %s failed", request.method, request.path)
            return ApiResponse.failure(internal_error("devcluster failed at this request; its log says more"))

    async def _handle(self, request: ApiRequest) -> ApiResponse:
        since = perf_counter()
        user = request.user
        if user is None:
            user = ANONYMOUS if self.authenticator is None else self.authenticator.authenticate(request)
            request.user = user
        target = target_of(request)
        in_flight = self.metrics.in_flight(request, target)
        in_flight.enter(since)
        try:
            return await self._answer(request, user, target, since)
        finally:
            in_flight.leave()

    async def _answer(self, request: ApiRequest, user: User, target: Attributes, since: float) -> ApiResponse:
        self.authorize(user, _with_selected_name(request, target))
        if not target.resource:
            answer = await self.plain_paths.answer(request)
            self.metrics.count_page(target, answer, since)
            return answer
        resource = self.registry.find(target.group, target.version, target.resource)
        if resource is None:
            return self.plain_paths.unknown(target)
        call = Call(
            request=request,
            resource=resource,
            user=user,
            namespace=target.namespace if resource.namespaced else "",
            name=target.name,
            subresource=target.subresource,
        )
        if resource.deprecation:
            call.warn(resource.deprecation)
        try:
            answer = await self._serve(call, target)
        except StatusError as error:
            answer = negotiation.failure(error, request.headers.get("accept", ""))
        if call.warnings:
            answer.warnings += call.warnings
        self.metrics.count(call, target.verb, answer, since)
        return answer

    def authorize(self, user: User, wanted: Attributes) -> None:
        """Raise StatusError, 403, unless the user may take the action."""
        if self.authorizer is not None:
            decision = self.authorizer.authorize(user, wanted)
            if not decision.allowed:
                raise refusal(user, wanted, decision)

    def _check_create(self, call: Call) -> None:
        """Raise StatusError, 403, unless the user may create the object or its subresource."""
        wanted = Attributes(
            verb="create",
            group=call.resource.group,
            version=call.resource.version,
            resource=call.resource.plural,
            subresource=call.subresource,
            namespace=call.namespace,
            name=call.name,
        )
        self.authorize(call.user, wanted)

    async def _serve(self, call: Call, target: Attributes) -> ApiResponse:
        resource, verb = call.resource, target.verb
        # Paths of the other scope have no objects; Namespaces have paths with a name and with a namespace.
        other_scope = resource.namespaced is not bool(target.namespace) and resource.name != "namespaces"
        if other_scope and (target.name or target.namespace):
            return self.plain_paths.unknown(target)
        if target.subresource and target.subresource in resource.subresources:
            return await self._subresource(call, target)
        if target.subresource and resource.custom:
            raise not_found(resource.group, resource.plural, target.name)
        if target.subresource:
            return self.plain_paths.unknown(target)
        if not self._is_served(call, target):
            return self._refused(call, target)
        accept = call.request.headers.get("accept", "")
        return await self._verbs[verb](
            call, negotiate(accept, custom=resource.custom, stream=verb == "watch")
        )

    def _refused(self, call: Call, target: Attributes) -> ApiResponse:
        """Build the response for a verb that the resource does not support."""
        if call.resource.custom:
            if call.resource.namespaced and not target.namespace:
                return page_not_found()
            if not target.name and target.verb in _NAMED:
                raise bad_request("name must be provided")
        raise _not_allowed(call.resource, target)

    @staticmethod
    def _is_served(call: Call, target: Attributes) -> bool:
        verb, resource = target.verb, call.resource
        if verb not in resource.verbs or call.request.method == "HEAD":
            return False
        if target.name:
            return verb in _NAMED or verb == "watch" or (verb == "create" and resource.custom)
        if verb not in _COLLECTION:
            return False
        # Without a namespace, the only verbs of a namespaced resource are list and watch.
        return not resource.namespaced or bool(target.namespace) or verb in {"list", "watch"}

    def _list_options(self, call: Call) -> ListOptions:
        options = ListOptions.of(call.request.query)
        if not self._sharded_lists:
            options.shard_selector = ""
        return options

    async def _list(self, call: Call, representation: Representation) -> ApiResponse:
        return await self.reader.list_objects(call, self._list_options(call), representation)

    async def _watch(self, call: Call, representation: Representation) -> ApiResponse:
        options = self._list_options(call)
        options.watch = True
        return self.watcher.watch(call, options, representation)

    async def _create(self, call: Call, representation: Representation) -> ApiResponse:
        options = WriteOptions.of(call.request.query, "CreateOptions")
        if call.resource.kind == "Binding" and not call.resource.group:
            return await self.subresources.pods.bind(call)
        obj = decode_object(call, self.registry, options.field_validation)
        if self.reviews is not None and call.resource.verbs == ("create",):
            match_namespace(obj["metadata"], call.namespace)
            await self.writer.record_new(call, obj, options)
            reviewed = await self.reviews.review(call.resource.kind, obj, call.user)
            return await encode(reviewed, representation, status=201)
        return await self._written(call, await self.writer.create(call, obj, options), representation)

    async def _update(self, call: Call, representation: Representation) -> ApiResponse:
        options = WriteOptions.of(call.request.query, "UpdateOptions")
        body = decode_object(call, self.registry, options.field_validation)
        match_namespace(body["metadata"], call.namespace)
        check_name(call, body)
        given: Object | None = body

        async def change(_: Object | None) -> Object:
            nonlocal given
            if given is None:  # a retry of an operation whose first attempt has changed the object
                return decode_object(call, self.registry, "Ignore")
            first, given = given, None
            return first

        written = await self.writer.update(call, change, options, anew=True)
        return await self._written(call, written, representation)

    async def _patch(self, call: Call, representation: Representation) -> ApiResponse:
        applies = is_apply(call)
        options = WriteOptions.of(call.request.query, "PatchOptions", apply=applies)
        change = change_of(call, self.registry, options, self._clock)
        written = await self.writer.update(
            call, change, options, may_create=applies and not call.subresource, managed=applies
        )
        return await self._written(call, written, representation)

    async def _delete(self, call: Call, representation: Representation) -> ApiResponse:
        options = decode_delete_options(call)
        deleted = await self.deleter.delete(call, options)
        await self.store.durable(deleted.version)
        return await self._deleted(call, options, deleted, representation)

    async def _deleted(
        self, call: Call, options: DeleteOptions, deleted: Deleted, representation: Representation
    ) -> ApiResponse:
        resource = call.resource
        if deleted.gone and not resource.strategy.returns_deleted:
            details = {"name": call.name, "group": resource.group, "kind": resource.plural}
            details = {name: value for name, value in details.items() if value}
            details["uid"] = deleted.obj["metadata"].get("uid", "")
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
            status["details"] = details
            return await encode(status, Representation(representation.media_type))
        code = 202 if not deleted.gone and options.orphan is False else 200
        return await self.reader.one(call, orjson.dumps(deleted.obj), representation, status=code)

    async def _delete_collection(self, call: Call, representation: Representation) -> ApiResponse:
        listed = self._list_options(call)
        options = decode_delete_options(call)
        selection = Selection.of(call.resource, listed)
        _, items, metadata = await self.reader.select(call, listed, selection)
        last = 0
        for stored in items:
            one = dataclasses.replace(call, namespace=stored.key.namespace, name=stored.key.name)
            try:
                last = max(last, (await self.deleter.delete(one, options)).version)
                await asyncio.sleep(0)  # other requests may run here
            except StatusError as error:
                if error.code != 404:  # noqa: PLR2004 -- the object is already gone
                    raise
        await self.store.durable(last)
        return await self.reader.listed(call, items, metadata, representation)

    async def _subresource(self, call: Call, target: Attributes) -> ApiResponse:
        if not target.name:
            return self.plain_paths.unknown(target)
        if call.subresource not in _PARTS:
            answer = await self.subresources.serve(call, target.verb)
            if answer is None:
                raise _not_allowed(call.resource, target)
            return answer
        if target.verb not in ({"update"} if call.subresource == "finalize" else {"get", "update", "patch"}):
            raise _not_allowed(call.resource, target)
        accept = call.request.headers.get("accept", "")
        return await self._verbs[target.verb](call, negotiate(accept, custom=call.resource.custom))

    async def _written(self, call: Call, written: Written, representation: Representation) -> ApiResponse:
        await self.store.durable(written.version)
        data = written.data
        if data is None:
            data = orjson.dumps(await conversion.to_request(call.resource, written.obj))
        return await self.reader.one(call, data, representation, status=201 if written.created else 200)


def _not_allowed(resource: Resource, target: Attributes) -> StatusError:
    if resource.custom:
        return method_not_allowed(resource.group, resource.plural, target.verb)
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, details={})


def _with_selected_name(request: ApiRequest, target: Attributes) -> Attributes:
    """Set the name of `target` from the request's field selector, since RBAC can grant access to one name."""
    text = request.option("fieldSelector")
    if not text or target.name or target.verb not in {"list", "watch", "deletecollection"}:
        return target
    try:
        return dataclasses.replace(target, name=FieldSelector.parse(text).value_of("metadata.name") or "")
    except SelectorError:
        return target
