"""An interceptor that measures each call, logs some calls, and turns refusals into gRPC errors."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from petstore.metrics import CallMetrics, ServerMetrics
from petstore.sampler import Sampler
from petstore.service import CallRefused, Context

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"

_log = logging.getLogger("petstore.calls")


class ObservingInterceptor(grpc.aio.ServerInterceptor):
    """An interceptor that measures every call except gRPC reflection, whose requests are a stream."""

    def __init__(self, metrics: ServerMetrics, sampler: Sampler) -> None:
        self._metrics = metrics
        self._sampler = sampler

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the method's handler, wrapped so that its calls are measured."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler
        method = handler_call_details.method
        _, service, name = method.split("/")
        kind = "server_stream" if handler.response_streaming else "unary"
        metrics = self._metrics.of(kind, service, name)
        behaviour: Any = handler.unary_stream if handler.response_streaming else handler.unary_unary

        def read(data: bytes) -> Any:
            # gRPC would log a traceback for each invalid request.
            try:
                return handler.request_deserializer(data) if handler.request_deserializer else data
            except DecodeError:
                text = "the request is not a message of this call"
                raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, text) from None

        async def answer_to(data: bytes, context: Context) -> Any:
            return await behaviour(read(data), context)

        async def answer(data: bytes, context: Context) -> Any:
            with self._observed(method, metrics, context):
                answered = await _unless_refused(answer_to(data, context), context)
                metrics.sent.inc()
                return answered

        async def answers_to(data: bytes, context: Context) -> AsyncGenerator[Any, None]:
            async with aclosing(behaviour(read(data), context)) as answers:
                async for each in answers:
                    yield each

        async def stream(data: bytes, context: Context) -> AsyncIterator[Any]:
            with self._observed(method, metrics, context):
                async with aclosing(answers_to(data, context)) as answers:
                    while True:
                        try:
                            each = await _unless_refused(anext(answers), context)
                        except StopAsyncIteration:
                            return
                        metrics.sent.inc()
                        yield each

        # A streaming method may also be a coroutine that writes to the context, like Health.Watch.
        as_generator = inspect.isasyncgenfunction(behaviour)
        make = (
            grpc.unary_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        return make(
            stream if as_generator else answer,
            response_serializer=handler.response_serializer,
        )

    @contextlib.contextmanager
    def _observed(self, method: str, metrics: CallMetrics, context: Context) -> Iterator[None]:
        metrics.started.inc()
        metrics.received.inc()
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
            metrics.seconds.observe(seconds)
            metrics.handled(code)
            if self._sampler.picks():
                client = context.peer().partition(":")[2]
                _log.info("%s %s %.1f ms from %s", method, code.name, seconds * 1000, client)


async def _unless_refused(work: Awaitable[Any], context: Context) -> Any:
    try:
        return await work
    except CallRefused as refused:
        await context.abort(refused.code, str(refused))


def _code(context: Context, failure: BaseException | None) -> grpc.StatusCode:
    code: Any = context.code()  # None until the handler sets it, unlike in the type stubs
    if isinstance(code, grpc.StatusCode):
        return code
    if failure is None:
        return grpc.StatusCode.OK
    if isinstance(failure, (asyncio.CancelledError, GeneratorExit)):
        remaining: Any = context.time_remaining()  # None without a deadline, unlike in the type stubs
        late = remaining is not None and remaining <= 0
        return grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
    return grpc.StatusCode.UNKNOWN
