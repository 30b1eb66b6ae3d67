"""The program's entry point: it runs a command, and turns errors into a line of text and an exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from petstore.cli.flags import command_line

__all__ = ["main"]

_OK, _FAILED, _INTERRUPTED = 0, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns the exit code: 0 when done, 1 on failure, 2 for a wrong flag, 130 when interrupted."""
    options = command_line().read(arguments)
    # gRPC would explain every failed connection on stderr, in its own terms.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        if options.command == "serve":
            from petstore.cli.serve import serve  # noqa: PLC0415 -- after the flags are known to be right

            return serve(options)
        from petstore.cli.calls import call  # noqa: PLC0415

        return asyncio.run(call(options))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has gone. Python would fail once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
