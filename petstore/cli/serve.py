"""The command `petstore serve`, which runs a store."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import click

from manager.util.loop import loop_factory
from petstore.errors import visible
from petstore.server import CannotListen, PetStoreServer, ServerOptions
from petstore.storage import DataUnusable
from petstore.tls import TlsFiles, TlsUnusable

_FAILED, _WRONG_USAGE = 1, 2
_SIGNALS = signal.SIGINT, signal.SIGTERM


def serve(options: Mapping[str, Any]) -> int:
    """Serve until a signal arrives; a second signal ends the process at once. Return the exit code."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    tls = TlsFiles(
        ca_file=options["tls_client_ca_file"],
        cert_file=options["tls_cert_file"],
        key_file=options["tls_key_file"],
    )
    settings = ServerOptions(
        bind_address=options["bind_address"],
        metrics_bind_address=options["metrics_bind_address"],
        data=None if options["memory"] else options["data"],
        ignore_idempotency_keys=options["ignore_idempotency_keys"],
        allow_change_sampler=options["allow_change_sampler"],
        tls=tls,
        calls=options["max_calls"],
        message_bytes=options["max_message_size"],
        grace=options["graceful_shutdown_timeout"],
    )
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(settings))
    except TlsUnusable as error:
        name = "--tls-client-ca-file" if error.file == "ca_file" else f"--tls-{error.file.replace('_', '-')}"
        _fail(f"{name}: {error}")
        return _WRONG_USAGE
    except DataUnusable as error:
        return _fail(f"--data: {error}")
    except CannotListen as error:
        metrics = error.address is settings.metrics_bind_address
        return _fail(f"{'--metrics-bind-address' if metrics else '--bind-address'}: {error}")
    return 0


async def _serve(settings: ServerOptions) -> None:
    stop = asyncio.Event()

    def stop_or_exit() -> None:
        if stop.is_set():
            os._exit(_FAILED)
        stop.set()

    loop = asyncio.get_running_loop()
    # Signals are handled from the start, so that an interrupted start also ends cleanly.
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop_or_exit)
    async with PetStoreServer(settings) as server:
        click.echo(f"petstore: serving at {server.address}, pets are in {settings.data or 'memory'}")
        if server.metrics_address is not None:
            click.echo(f"petstore: metrics at http://{server.metrics_address.reached}/metrics")
        if settings.ignore_idempotency_keys:
            click.echo("petstore: idempotency keys are ignored")
        click.echo("petstore: ready; Ctrl-C stops it")
        await stop.wait()
        click.echo("petstore: stopping")


def _fail(message: str) -> int:
    sys.stderr.write(f"petstore: {visible(message)}\n")
    return _FAILED
