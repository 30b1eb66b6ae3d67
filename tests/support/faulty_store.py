"""A pet store beside a test that blocks, in a thread of its own; it fails calls, or holds them, on demand."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

import grpc

from petstore.address import BindAddress
from petstore.server import PetStoreServer, ServerOptions
from tests.support.ports import PortBlock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

COMMAND_TIMEOUT = 20.0


class Held:
    """A call that the store holds up, before or after its effect."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reached: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._released = asyncio.Event()

    async def hold(self) -> None:
        self._reached.set_result(None)
        await self._released.wait()

    def wait(self) -> None:
        """Until a call is held."""
        self._reached.result(COMMAND_TIMEOUT)

    def release(self) -> None:
        """Let it go on, if its caller still waits."""
        self._loop.call_soon_threadsafe(self._released.set)


class FaultyStore(grpc.aio.ServerInterceptor):
    """Serves from memory for the length of a `with` block."""

    def __init__(self, *, ignore_idempotency_keys: bool = False) -> None:
        self._ports = PortBlock(1)
        self.address = f"127.0.0.1:{self._ports[0]}"
        self._options = ServerOptions(
            bind_address=BindAddress("127.0.0.1", self._ports[0]),
            metrics_bind_address=None,
            data=None,
            grace=0.1,
            ignore_idempotency_keys=ignore_idempotency_keys,
        )
        self._waiting: dict[str, list[tuple[str, Held | None]]] = {}
        self.calls: Counter[str] = Counter()
        """How often each method that changes something was called."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty-store")
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        server = PetStoreServer(self._options, interceptors=(self,))
        self._run(self._stack.enter_async_context(server))
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(COMMAND_TIMEOUT)
        self._loop.close()
        self._ports.close()

    def fail(self, method: str, when: str, times: int = 1) -> None:
        """Fail the next calls of `method`, such as "AddPets", "before" or "after" their effect."""
        self._waiting.setdefault(method, []).extend([(when, None)] * times)

    def hold(self, method: str, when: str) -> Held:
        """Hold up the next call of `method`, "before" or "after" its effect."""
        held = Held(self._loop)
        self._waiting.setdefault(method, []).append((when, held))
        return held

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The handler, which looks at what is set with each call."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method.rpartition("/")[2]
        if handler is None or handler.request_streaming or handler.response_streaming:
            return handler
        waiting = self._waiting.setdefault(method, [])

        async def faulty(request: Any, context: Any) -> Any:
            self.calls[method] += 1
            when, held = waiting.pop(0) if waiting else ("", None)
            if when == "before":
                await strike(context, held)
            answer = await handler.unary_unary(request, context)
            if when == "after":
                await strike(context, held)
            return answer

        async def strike(context: Any, held: Held | None) -> None:
            if held is not None:
                await held.hold()
            else:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "injected")

        return grpc.unary_unary_rpc_method_handler(
            faulty,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(COMMAND_TIMEOUT)
