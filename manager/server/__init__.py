"""HTTP servers of the process: aiohttp.web behind limits, and the API server's word on who may see a page."""

from __future__ import annotations

from manager.server.http_server import HttpServer, Limits

__all__ = ["HttpServer", "Limits"]
