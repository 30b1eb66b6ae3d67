"""What libraries log through the standard library comes out as our lines."""

from __future__ import annotations

import logging

from manager.logs.loggers import get_logger

_QUIET = {
    # One line per probe and scrape says nothing; what goes wrong is logged under aiohttp.server.
    "aiohttp.access": logging.WARNING,
    # Debug prints each selector call.
    "asyncio": logging.INFO,
}


class BridgeHandler(logging.Handler):
    """Hands each record of the standard library to a structured logger, formatted once."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record under its own logger's name and level; never fails."""
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        get_logger(record.name).log(level, _message(record), exc_info=record.exc_info)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a library's message that does not fit its arguments is shown all the same
        return f"{record.msg!r} % {record.args!r}"


def install(level: int) -> BridgeHandler:
    """Route the standard library's root logger, and warnings, through our lines from `level` on."""
    handler = BridgeHandler()
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    for name, quietest in _QUIET.items():
        logging.getLogger(name).setLevel(max(level, quietest))
    logging.captureWarnings(True)
    return handler


def remove(handler: BridgeHandler) -> None:
    """Undo `install`."""
    logging.captureWarnings(False)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.NOTSET)
    root = logging.getLogger()
    root.removeHandler(handler)
    root.setLevel(logging.WARNING)
