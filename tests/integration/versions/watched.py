"""A watch that a test reads event by event, on a connection of its own."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

TIMEOUT = 90.0

Event = dict[str, Any]


class Watched:
    """Open within a `with` block; `seen` are the events taken so far."""

    def __init__(
        self, plane: ControlPlane, path: str, accept: str = "application/json", **query: str
    ) -> None:
        credentials = plane.credentials
        self._connection = http.client.HTTPSConnection(
            urlsplit(credentials.server).netloc,
            timeout=TIMEOUT,
            context=credentials.ssl_context(plane.folder / "watched"),
        )
        self._target = f"{path}?{urlencode(query)}"
        self._headers = {"Accept": accept}
        if credentials.token is not None:
            self._headers["Authorization"] = f"Bearer {credentials.token}"
        self.seen: list[Event] = []

    def __enter__(self) -> Self:
        self._connection.request("GET", self._target, headers=self._headers)
        self._answer = self._connection.getresponse()
        assert self._answer.status == http.HTTPStatus.OK, self._answer.read()
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._connection.close()

    def take(self, count: int = 1) -> list[Event]:
        """The next events, waiting for them; bookmarks that come when the server sees fit are left out."""
        events: list[Event] = []
        while len(events) < count:
            line = self._answer.readline()
            assert line, f"the watch ended after {self.seen + events}"
            event = json.loads(line)
            if event["type"] != "BOOKMARK" or event["object"]["metadata"].get("annotations"):
                events.append(event)
        self.seen += events
        return events
