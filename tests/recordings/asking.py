"""Single requests to an API server, and answers without values that change with time."""

from __future__ import annotations

import datetime
import email.utils
import http.client
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode, urlsplit

from tests.support.control_plane import ControlPlane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
NAMESPACE = "recorded"
NOW = "2026-01-31T12:00:00Z"
"""Time of every event in a recording."""
MOMENT = datetime.datetime.fromisoformat(NOW).timestamp()
NEAR = 600.0
PATIENCE = 90.0
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?=(\.\d+)?Z)")
# Pattern of generated values, and their replacement with a number.
MADE_UP = [
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "00000000-0000-4000-8000-{:012}"),
    (re.compile(r"\b10\.96\.\d+\.\d+\b(?!/)"), "10.96.99.{}"),
    (re.compile(r"(?<=\"nodePort\": )3[0-2]\d{3}\b|(?<=:)3[0-2]\d{3}(?=/TCP)"), "31{:03}"),
    (re.compile(r"(?<=kube-api-access-)\w{5}\b"), "{:05}"),
]


class Answer(NamedTuple):
    """Answer to a request."""

    status: int
    value: Any
    """Parsed JSON of the body, or its bytes if it is not JSON."""
    warnings: list[str]
    at: float
    """The server's time, in whole seconds."""


class Server:
    """Administrator access to an API server, with a namespace that has a service account for pods."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self._defined: list[str] = []
        credentials = plane.credentials
        folder.mkdir(parents=True, exist_ok=True)
        netloc = urlsplit(credentials.server).netloc
        self._connection = http.client.HTTPSConnection(netloc, context=credentials.ssl_context(folder))
        self._headers = {"Authorization": f"Bearer {credentials.token}"}
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._defined:
            self.ask("DELETE", f"{CRDS}/{name}")
        self._connection.close()

    def define(self, definition: Mapping[str, Any]) -> None:
        """Create a CRD; delete it when the server is closed."""
        self._defined.append(definition["metadata"]["name"])
        self.must("POST", CRDS, definition)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        accept: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; `body` is an object for JSON, or literal text."""
        target = f"{path}?{urlencode(query)}" if query else path
        payload = body if isinstance(body, str | None) else json.dumps(body)
        headers = {**self._headers, "Content-Type": media, "Accept": accept, "User-Agent": "recorder"}
        self._connection.request(method, target, payload and payload.encode(), headers)
        answer = self._connection.getresponse()
        content = answer.read()
        at = email.utils.parsedate_to_datetime(answer.headers["Date"]).timestamp()
        warnings = [_text_of(each) for each in answer.headers.get_all("Warning", [])]
        is_json = answer.headers["Content-Type"].startswith("application/json")
        return Answer(answer.status, json.loads(content) if is_json else content, warnings, at)

    def must(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Send a request that must succeed; return the JSON of the response."""
        answer = self.ask(method, path, body, **options)
        assert answer.status < http.HTTPStatus.BAD_REQUEST, f"{method} {path}: {answer.value}"
        return answer.value

    def until(self, path: str, wanted: Callable[[Answer], bool]) -> None:
        """GET the path until `wanted` returns true for the answer."""
        deadline = time.monotonic() + PATIENCE
        while not wanted(self.ask("GET", path)):
            assert time.monotonic() < deadline, f"{path} never fulfils the condition"
            time.sleep(0.02)

    def collection(self, obj: Mapping[str, Any]) -> str:
        """Return the API path of the object's collection."""
        version, kind = obj["apiVersion"], obj["kind"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        (found,) = (
            each
            for each in self.must("GET", base)["resources"]
            if each["kind"] == kind and "/" not in each["name"]
        )
        return (
            f"{base}/namespaces/{NAMESPACE}/{found['name']}"
            if found["namespaced"]
            else f"{base}/{found['name']}"
        )


def shifted(value: Any, seconds: float) -> Any:
    """Return the value with every timestamp moved by `seconds`."""

    def move(found: re.Match[str]) -> str:
        moment = datetime.datetime.fromisoformat(f"{found[0]}Z") + datetime.timedelta(seconds=seconds)
        return moment.strftime("%Y-%m-%dT%H:%M:%S")

    return json.loads(TIME.sub(move, json.dumps(value)))


def fixed(value: Any, at: float, *, asked: Any = None) -> Any:
    """Replace times near `at` by NOW, and generated values that are not in `asked` by constants."""
    kept = json.dumps(asked)

    def snap(found: re.Match[str]) -> str:
        near = abs(datetime.datetime.fromisoformat(f"{found[0]}Z").timestamp() - at) < NEAR
        return NOW.removesuffix("Z") if near else found[0]

    text = TIME.sub(snap, json.dumps(value))
    for pattern, shown in MADE_UP:
        made_up = [each for each in dict.fromkeys(pattern.findall(text)) if each not in kept]
        instead = {each: shown.format(number) for number, each in enumerate(made_up, 1)}
        text = pattern.sub(lambda found, known=instead: known.get(found[0], found[0]), text)
    return json.loads(text)


def _text_of(warning: str) -> str:
    return re.sub(r"\\(.)", r"\1", warning.partition('"')[2].removesuffix('"'))
