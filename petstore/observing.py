"""The interceptor that measures and bounds each call, and logs those that the sampler picks."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from petstore.limits import Limits, excess_of
from petstore.metrics import CallMetrics, ServerMetrics
from petstore.sampler import Sampler

__all__ = ["ObservingInterceptor"]

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"

_log = logging.getLogger("petstore.calls")


class _Refusal(str):
    """Why a request is refused, in its place."""

    __slots__ = ()


class ObservingInterceptor(grpc.aio.ServerInterceptor):
    """Measures calls with a single request, and bounds how long they take.

    Streams of requests pass through as they are: of the services here only reflection has any.
    """

    def __init__(self, metrics: ServerMetrics, sampler: Sampler, limits: Limits) -> None:
        self._metrics = metrics
        self._sampler = sampler
        self._limits = limits
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
            return handler
        kind = "server_stream" if handler.response_streaming else "unary"
        _, service, name = method.split("/")
        call = _Call(method, self._metrics.of(kind, service, name), self._sampler, self._limits)
        serializers = {
            "request_deserializer": _tolerant(handler.request_deserializer),
            "response_serializer": handler.response_serializer,
        }
        if not handler.response_streaming:
            limit = self._limits.call_seconds
            return grpc.unary_unary_rpc_method_handler(
                call.answering(handler.unary_unary, limit=limit), **serializers
            )
        behaviour: Any = handler.unary_stream
        # A stream may also be a coroutine that writes into the context, as Health.Watch is.
        wrapped = (
            call.streaming(behaviour) if inspect.isasyncgenfunction(behaviour) else call.answering(behaviour)
        )
        return grpc.unary_stream_rpc_method_handler(wrapped, **serializers)


class _Call:
    """One method, and what is to be recorded of its calls."""

    def __init__(self, method: str, metrics: CallMetrics, sampler: Sampler, limits: Limits) -> None:
        self._method = method
        self._metrics = metrics
        self._sampler = sampler
        self._limits = limits

    def answering(self, behaviour: Any, *, limit: float | None = None) -> Any:
        """`behaviour`, a coroutine function, observed, and ended after `limit` seconds."""

        async def observed(request: Any, context: Context) -> Any:
            begun = self._begin()
            failure: BaseException | None = None
            try:
                async with _timely(context, limit):
                    await _refuse_if_told(request, context)
                    answer = await behaviour(request, context)
            except BaseException as error:
                failure = error
                raise
            finally:
                self._end(begun, context, failure)
            if answer is not None:
                self._metrics.sent.inc()
            return answer

        return observed

    def streaming(self, behaviour: Any) -> Any:
        """`behaviour`, an asynchronous generator function, observed, and ended when its client stalls."""
        patience = self._limits.reader_seconds

        async def observed(request: Any, context: Context) -> None:
            begun = self._begin()
            failure: BaseException | None = None
            now = asyncio.get_running_loop().time
            last = now()
            try:
                async with (
                    _timely(context, patience) as limit,
                    aclosing(behaviour(request, context)) as answers,
                ):
                    await _refuse_if_told(request, context)
                    async for answer in answers:
                        await _unless_gone(context.write(answer))
                        self._metrics.sent.inc()
                        if now() - last > patience / 10:
                            last = now()
                            limit.reschedule(last + patience)
            except BaseException as error:
                failure = error
                raise
            finally:
                self._end(begun, context, failure)

        return observed

    def _begin(self) -> float:
        self._metrics.started.inc()
        self._metrics.received.inc()
        return time.perf_counter()

    def _end(self, begun: float, context: Context, failure: BaseException | None) -> None:
        seconds = time.perf_counter() - begun
        code = _code(context, failure)
        self._metrics.seconds.observe(seconds)
        self._metrics.handled(code)
        if self._sampler.picks():
            _log.info("%s %s %.1f ms from %s", self._method, code.name, seconds * 1000, context.peer())


def _tolerant(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    """The same, but for bytes that are no message: of these gRPC would log a traceback each.

    None leaves bytes as they are.
    """
    if deserialize is None:
        return None

    def read(data: bytes) -> Any:
        try:
            message = deserialize(data)
        except DecodeError:
            return _Refusal("the request is not a message of this call")
        # Let go at once: while it is refused, its hundred thousand values would take forty times its bytes.
        excess = excess_of(message)
        return _Refusal(excess) if excess else message

    return read


async def _refuse_if_told(request: Any, context: Context) -> None:
    if isinstance(request, _Refusal):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(request))


@asynccontextmanager
async def _timely(context: Context, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """End the call when this takes longer. gRPC itself minds the client's deadline only, if there is one."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield limit
    except TimeoutError:
        if not limit.expired():
            raise
        text = f"nothing came of it for {seconds:g} s"
        await _unless_gone(context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text))


async def _unless_gone(sending: Awaitable[None]) -> None:
    """Send it. When the client is gone the call is cancelled, for which gRPC would log an error each time."""
    try:
        await sending
    except grpc.aio.InternalError:
        raise asyncio.CancelledError from None


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
