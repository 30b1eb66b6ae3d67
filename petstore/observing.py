"""The interceptor that measures and bounds each call, and logs those that the sampler picks."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from petstore.bounds import Bound, CallRefused, Context, Places, unless_gone
from petstore.limits import Limits, excess_of
from petstore.metrics import CallMetrics, ServerMetrics
from petstore.sampler import Sampler

__all__ = ["ObservingInterceptor"]

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"

_LARGE: Final = 4 * 1024
_LARGE_AT_ONCE: Final = 4
"""Requests of more bytes than `_LARGE`, of each method: read, they take some ten times their bytes."""

_log = logging.getLogger("petstore.calls")


class ObservingInterceptor(grpc.aio.ServerInterceptor):
    """Measures and bounds each call: how long it takes, and how many of its kind there are.

    For gRPC every call is one with a stream of requests, so that waiting for the first one is ours to bound;
    clients cannot tell. Reflection, whose requests are a stream indeed, is bounded and not measured.
    """

    def __init__(
        self, metrics: ServerMetrics, sampler: Sampler, limits: Limits, client_of: Callable[[str], str]
    ) -> None:
        """`client_of` knows the address of the client that gRPC takes for this peer."""
        self._metrics = metrics
        self._client_of = client_of
        self._sampler = sampler
        streams = Places(limits.streams, "streams")
        self._requests = Bound(
            limits.silent_seconds, Places(limits.requests, "calls that wait for their turn")
        )
        self._working = Bound(limits.call_seconds)
        self._searching = Bound(limits.reader_seconds, Places(limits.searches, "searches"))
        self._watching = Bound(None, streams)
        self._conversing = Bound(limits.call_seconds, streams)
        # A method's handler is the same for each call, and wrapping it costs more than a call may.
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """The method's handler, wrapped."""
        method = handler_call_details.method
        if method not in self._wrapped:
            handler = await continuation(handler_call_details)
            if handler is None:
                return handler  # an unknown method; remembering those would let a client fill the memory
            self._wrapped[method] = self._wrap(method, handler)
        return self._wrapped[method]

    def _wrap(self, method: str, handler: grpc.RpcMethodHandler[Any, Any]) -> Handler:
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(
                _conversing(handler.stream_stream, self._conversing),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        kind = "server_stream" if handler.response_streaming else "unary"
        _, service, name = method.split("/")
        metrics = self._metrics.of(kind, service, name)
        call = _Call(method, metrics, self._tell, self._requests, handler.request_deserializer)
        # Requests come as bytes, which are read once there is room for what they hold.
        if not handler.response_streaming:
            return grpc.stream_unary_rpc_method_handler(
                call.answering(handler.unary_unary, self._working),
                response_serializer=handler.response_serializer,
            )
        behaviour: Any = handler.unary_stream
        # A stream may also be a coroutine that writes into the context, as Health.Watch is.
        return grpc.stream_stream_rpc_method_handler(
            call.streaming(behaviour, self._searching)
            if inspect.isasyncgenfunction(behaviour)
            else call.answering(behaviour, self._watching),
            response_serializer=handler.response_serializer,
        )

    def _tell(self, method: str, code: grpc.StatusCode, seconds: float, context: Context) -> None:
        if self._sampler.picks():
            client = self._client_of(context.peer())
            _log.info("%s %s %.1f ms from %s", method, code.name, seconds * 1000, client)


def _conversing(behaviour: Any, bound: Bound) -> Any:
    """`behaviour`, an asynchronous generator function that reads requests, bounded."""

    async def converse(requests: Any, context: Context) -> None:
        async with bound.around(context, reading=True), aclosing(behaviour(requests, context)) as answers:
            async for answer in answers:
                await unless_gone(context.write(answer))

    async def bounded(requests: Any, context: Context) -> None:
        await _unless_refused(converse(requests, context), context)

    return bounded


class _Call:
    """One method, and what is to be recorded of its calls."""

    def __init__(
        self,
        method: str,
        metrics: CallMetrics,
        tell: Callable[[str, grpc.StatusCode, float, Context], None],
        requests: Bound,
        deserialize: Callable[[bytes], Any] | None,
    ) -> None:
        self._method = method
        self._metrics = metrics
        self._tell = tell
        self._requests = requests
        self._deserialize = deserialize
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    def answering(self, behaviour: Any, bound: Bound) -> Any:
        """`behaviour`, a coroutine function that takes one request, observed and bounded."""

        async def answer(context: Context) -> Any:
            data = await self._received(context)
            large = len(data) > _LARGE
            if large:
                async with self._requests.around(context):
                    await self._large.acquire()
            try:
                async with bound.around(context):
                    return await behaviour(self._request(data), context)
            finally:
                if large:
                    self._large.release()

        async def observed(_: Any, context: Context) -> Any:
            with self._observed(context):
                answered = await _unless_refused(answer(context), context)
                if answered is not None:
                    self._metrics.sent.inc()
                return answered

        return observed

    def streaming(self, behaviour: Any, bound: Bound) -> Any:
        """`behaviour`, an asynchronous generator function that takes one request, likewise; it ends when its
        client stalls.
        """
        patience = bound.seconds or 0.0

        async def stream(context: Context) -> None:
            now = asyncio.get_running_loop().time
            data = await self._received(context)
            async with (
                bound.around(context) as limit,
                aclosing(behaviour(self._request(data), context)) as answers,
            ):
                last = now()
                async for answer in answers:
                    await unless_gone(context.write(answer))
                    self._metrics.sent.inc()
                    if now() - last > patience / 10:
                        last = now()
                        limit.restart()

        async def observed(_: Any, context: Context) -> None:
            with self._observed(context):
                await _unless_refused(stream(context), context)

        return observed

    async def _received(self, context: Context) -> bytes:
        async with self._requests.around(context, reading=True):
            data: Any = await context.read()
        if data is grpc.aio.EOF:
            raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, "there is no request")
        self._metrics.received.inc()
        assert isinstance(data, bytes)
        return data

    def _request(self, data: bytes) -> Any:
        if self._deserialize is None:
            return data
        try:
            message = self._deserialize(data)
        except DecodeError:
            text = "the request is not a message of this call"
            raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, text) from None
        if excess := excess_of(message):
            raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, excess)
        return message

    @contextlib.contextmanager
    def _observed(self, context: Context) -> Iterator[None]:
        self._metrics.started.inc()
        begun = time.perf_counter()
        failure: BaseException | None = None
        try:
            yield
        except BaseException as error:
            failure = error
            raise
        finally:
            seconds = time.perf_counter() - begun
            code = _code(context, failure)
            self._metrics.seconds.observe(seconds)
            self._metrics.handled(code)
            self._tell(self._method, code, seconds, context)


async def _unless_refused(work: Awaitable[Any], context: Context) -> Any:
    """What comes of `work`, or its refusal."""
    try:
        return await work
    except CallRefused as refused:
        code, text = refused.code, str(refused)
    # Out here, where nothing of the request is kept any more: its client may take long to hear of it.
    if not context.done():
        await unless_gone(context.abort(code, text))
    raise asyncio.CancelledError  # it has been refused already, and its client does not take that


def _code(context: Context, failure: BaseException | None) -> grpc.StatusCode:
    """How the call ended; `failure` is what left its handler."""
    code: Any = context.code()  # None until the handler sets it, which the stubs do not know
    if isinstance(code, grpc.StatusCode):
        return code
    if failure is None:
        return grpc.StatusCode.OK
    if isinstance(failure, (asyncio.CancelledError, GeneratorExit)):
        remaining: Any = context.time_remaining()  # None without a deadline, likewise
        late = remaining is not None and remaining <= 0
        return grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
    return grpc.StatusCode.UNKNOWN
