"""Simple API client for the tests' own reads and writes, independent of the manager's client."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.support.kubeconfig import Credentials

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
CREATORS = 4
# RemoteDisconnected is a ConnectionError; OpenSSL reports some resets as EOF.
BROKEN = (ConnectionError, ssl.SSLEOFError)


class ApiFailure(Exception):
    """Error: the server answered with an error status."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body[:500]}")
        self.status = status
        self.body = body


class ApiAccess:
    """Client of one server as one user; each thread that uses it has its own connection."""

    def __init__(self, credentials: Credentials, *, scratch: Path, timeout: float = 30.0) -> None:
        self._credentials = credentials
        self._context = credentials.ssl_context(scratch)
        self._netloc = urlsplit(credentials.server).netloc
        self._timeout = timeout
        self._local = threading.local()
        self._connections: list[http.client.HTTPSConnection] = []

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> str:
        """Send one request and return the body of the response.

        Raises:
            ApiFailure: the status is 400 or higher.
            OSError, http.client.HTTPException: there was no complete response.
        """
        headers = {"Accept": accept}
        if self._credentials.token is not None:
            headers["Authorization"] = f"Bearer {self._credentials.token}"
        payload = None
        if body is not None:
            headers["Content-Type"] = content_type
            payload = json.dumps(body)
        target = f"{path}?{urlencode(query)}" if query else path
        answer, text = self._exchange(method, target, payload, headers)
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise ApiFailure(answer.status, text)
        self._local.warnings = answer.headers.get_all("Warning", [])
        return text

    def get(self, path: str, **query: str) -> Any:
        return json.loads(self.request("GET", path, query=query))

    def find(self, path: str) -> Any | None:
        """Return the JSON at `path`, or None when the server answers 404."""
        try:
            return self.get(path)
        except ApiFailure as failure:
            if failure.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """POST `body` to a collection."""
        return json.loads(self.request("POST", path, body=body))

    def refusal(self, path: str, body: Mapping[str, Any], *, method: str = "POST") -> str:
        """Send `body`; return the message of a 422 response, or "" when the server accepts it."""
        try:
            self.request(method, path, body=body)
        except ApiFailure as failure:
            if failure.status != http.HTTPStatus.UNPROCESSABLE_ENTITY:
                raise
            return str(json.loads(failure.body)["message"])
        return ""

    def create_many(self, path: str, bodies: Iterable[Mapping[str, Any]]) -> None:
        """POST all bodies with several threads."""
        with ThreadPoolExecutor(CREATORS, thread_name_prefix="create-many") as pool:
            list(pool.map(lambda body: self.request("POST", path, body=body), bodies))

    def patch(self, path: str, body: Mapping[str, Any], *, content_type: str = MERGE_PATCH) -> Any:
        """PATCH an object, by default with a merge patch."""
        return json.loads(self.request("PATCH", path, body=body, content_type=content_type))

    def apply(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Apply objects of any kinds, as `kubectl apply --server-side` does.

        Raises:
            ApiFailure: the server refuses an object.
            AssertionError: the server sends a warning.
        """
        query = {"fieldManager": "tests", "force": "true", "fieldValidation": "Strict"}
        for manifest in manifests:
            path = self.path_of(manifest)
            self.request("PATCH", path, query=query, body=manifest, content_type=APPLY_PATCH)
            assert not self._local.warnings, f"{path}: {self._local.warnings}"

    def delete(self, path: str, **query: str) -> None:
        """DELETE an object; do nothing when it does not exist."""
        try:
            self.request("DELETE", path, query=query)
        except ApiFailure as failure:
            if failure.status != http.HTTPStatus.NOT_FOUND:
                raise

    @property
    def warnings(self) -> list[str]:
        """Return the Warning headers of the last successful response that this thread received."""
        return list(self._local.warnings)

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._connections:
            connection.close()

    def path_of(self, manifest: Mapping[str, Any]) -> str:
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        served = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plurals = [
            each["name"]
            for each in self.get(served)["resources"]
            if each["kind"] == kind and "/" not in each["name"]
        ]
        assert len(plurals) == 1, f"{served} has no {kind}, or several"
        namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        return f"{served}{namespace}/{plurals[0]}/{metadata['name']}"

    def _exchange(
        self, method: str, target: str, payload: str | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, str]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(
                self._netloc, timeout=self._timeout, context=self._context
            )
            self._local.connection = connection
            self._connections.append(connection)
        reused = connection.sock is not None
        try:
            connection.request(method, target, payload, headers)
            # The last response of a connection owns the socket, even without its body.
            with connection.getresponse() as answer:
                return answer, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            # The server may have closed the idle connection at a restart, before it received this request.
            if reused and isinstance(error, BROKEN):
                return self._exchange(method, target, payload, headers)
            raise
