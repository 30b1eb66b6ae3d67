"""The session that kopf and the handlers share."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import aiohttp
import kopf

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
# Connections of kopf's own watches: resources, namespaces and definitions.
WATCHES = 8


class Api:
    """The handlers' requests to the API server; kopf has no client, by its own documentation."""

    def __init__(self) -> None:
        self._server = ""
        self._session: aiohttp.ClientSession | None = None

    def log_in(self, concurrency: int, **kwargs: Any) -> kopf.AiohttpSession:
        """Make the session, from the kubeconfig that $KUBECONFIG names.

        By default kopf sends as many requests at a time as there are objects, on a connection each.
        """
        credentials = kopf.login_with_kubeconfig(**kwargs)
        if credentials is None:
            raise kopf.PermanentError("there is no kubeconfig")
        self._server = credentials.server
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=concurrency + WATCHES, ssl=credentials.as_ssl_context()),
            headers=credentials.as_http_headers(),
        )
        return kopf.AiohttpSession(aiohttp_session=self._session, server=credentials.server)

    async def create(self, path: str, obj: dict[str, Any]) -> dict[str, Any] | None:
        """Create an object; return it, or None if the name is taken."""
        assert self._session is not None, "log_in() comes first"
        async with self._session.post(self._server + path, json=obj) as answer:
            if answer.status == HTTPStatus.CONFLICT:
                return None
            answer.raise_for_status()
            return await answer.json()

    async def patch(self, path: str, patch: dict[str, Any], kind: str) -> dict[str, Any]:
        """Patch an object, and return it."""
        assert self._session is not None, "log_in() comes first"
        headers = {"Content-Type": kind}
        async with self._session.patch(self._server + path, json=patch, headers=headers) as answer:
            answer.raise_for_status()
            return await answer.json()
