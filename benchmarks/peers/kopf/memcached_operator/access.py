"""The session that kopf and the handlers share."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import aiohttp
import kopf

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
# The connections of kopf's own watches: of resources, namespaces and CustomResourceDefinitions.
WATCHES = 8


class Api:
    """The handlers' client of the API server; kopf's documentation says that kopf has none."""

    def __init__(self) -> None:
        self._server = ""
        self._session: aiohttp.ClientSession | None = None

    def log_in(self, concurrency: int, **kwargs: Any) -> kopf.AiohttpSession:
        """Create the session from the kubeconfig that $KUBECONFIG names.

        The session limits the connections: by default kopf opens one connection per object at a time.
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
        """Create an object; return it, or None if an object with this name exists."""
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
