"""Sends the requests of a conversation (a list of requests) to a control plane; records the answers."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import functools
import http.client
import json
import secrets
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from aiohttp import web

from tests.conformance.conversation import Conversation, Step
from tests.conformance.differences import differences
from tests.conformance.mask import Mask
from tests.support.api_objects import create_namespace
from tests.support.control_plane import ControlPlane
from tests.support.kubeconfig import Credentials
from tests.support.webhook_server import WebhookServer

TIMEOUT = 90.0
# Seconds between two requests of a repeated step, and total seconds of waiting in a conversation.
POLL = 0.05
PATIENCE = 10.0
# Seconds; a server closes idle connections after 90 s.
IDLE = 30.0
HEADERS = ("Warning", "Retry-After", "Allow")
# Characters in paths of the conversations that are not quoted.
PLAIN = "/?&=:,!~'()*-._%$"
# Paths of writes that a server does not store.
UNSTORED = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
CONNECTIONS = ("/exec", "/attach", "/proxy", "/portforward", "/token")

Answer = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class _Got:
    """An answer before it is masked."""

    status: int
    headers: http.client.HTTPMessage
    text: str

    @functools.cached_property
    def value(self) -> Any:
        """Return the body as parsed JSON; None when it is not JSON."""
        with contextlib.suppress(ValueError):
            return json.loads(self.text)
        return None


class _Webhooks(WebhookServer):
    """Webhook server; the steps of the conversation define the responses."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.answers: dict[str, Answer] = {}
        self.reviews: dict[str, list[Answer]] = {}

    def asked(self, path: str) -> list[Answer]:
        """Return the review requests that a path has received since the last call."""
        return self.reviews.pop(path, [])

    async def answer(self, path: str, review: Answer) -> web.Response:
        """Record the review, and respond with a delay, status or text if the steps define them."""
        self.reviews.setdefault(path, []).append(review)
        told = self.answers.get(path, {})
        await asyncio.sleep(told.get("delay", 0))
        if "text" in told or "status_code" in told:
            status, text = told.get("status_code", 200), told.get("text", "")
            return web.Response(status=status, text=text, content_type="application/json")
        return await super().answer(path, review)

    def respond(self, path: str, asked: Answer) -> Answer:
        """Return the response that the steps define for a review at this path."""
        told = self.answers.get(path, {})
        if "rename" in told:
            self.convert = functools.partial(_renamed, told)
        elif "desiredAPIVersion" in asked:
            return told.get("response", {})
        patch = {"patch": told["patch"]} if "patch" in told else {}
        self.admit = lambda *_: told.get("response", {}) | patch
        return super().respond(path, asked)


def _renamed(told: Answer, obj: Answer, wanted: str) -> Answer:
    """Convert an object to the version `wanted`, by the rules in `told`.

    `rename` maps each version to the name of one field of spec and status. `carry` maps a spec field to the
    only version that has the field; in other versions an annotation keeps the value.
    """
    names, version = told["rename"], wanted.rpartition("/")[2]
    found = {**obj, "apiVersion": wanted}
    for part in {"spec", "status"} & obj.keys():
        values = obj[part] or {}
        found[part] = {names[version] if name in names.values() else name: values[name] for name in values}
    for name, home in told.get("carry", {}).items():
        spec, metadata = found.get("spec", {}), {**obj["metadata"]}
        carried = {**(metadata.pop("annotations", None) or {})}
        if version == home and name in carried:
            spec[name] = json.loads(carried.pop(name))
        elif version != home and name in spec:
            carried[name] = json.dumps(spec.pop(name))
        found |= {"spec": spec, "metadata": metadata | ({"annotations": carried} if carried else {})}
    return found


def play(
    conversation: Conversation, plane: ControlPlane, *, recorded: Mapping[str, Answer] | None = None
) -> dict[str, Answer]:
    """Run the conversation; return the masked answers by the labels of the recorded steps.

    A real server acts on a new role, CRD, webhook or quota some time after it has stored it. With `recorded`,
    the player waits for the server: it repeats a request without effects until the answer is as recorded.
    Before a write whose recorded answer is a 4xx error, the player waits until a dry run of the write fails.
    """
    return _Player(conversation, plane, recorded).play()


class _Player:
    def __init__(
        self, conversation: Conversation, plane: ControlPlane, recorded: Mapping[str, Answer] | None
    ) -> None:
        self._conversation = conversation
        self._plane = plane
        self._recorded = recorded
        self._waited = 0.0
        name = f"conf-{secrets.token_hex(4)}"
        self._names = {"ns": name, "id": name}
        names = {name: "{id}"}
        self._watches: dict[str, tuple[http.client.HTTPSConnection, http.client.HTTPResponse]] = {}
        self._accesses: dict[str, tuple[Credentials, ssl.SSLContext]] = {}
        self._connections: dict[str, http.client.HTTPSConnection] = {}
        self._used: dict[str, float] = {}
        self._webhooks: _Webhooks | None = None
        if any(step.webhook for step in conversation.steps):
            folder = plane.folder / "conversation"
            folder.mkdir(exist_ok=True)
            self._webhooks = _Webhooks(folder)
            self._webhooks.__enter__()
            self._names |= {"hooks": self._webhooks.url, "ca": self._webhooks.ca_bundle}
            names |= {self._webhooks.url: "{hooks}", self._webhooks.ca_bundle: "{ca}"}
        self._mask = Mask(
            names,
            without_controllers=conversation.without_controllers,
            without_managers=conversation.without_managers,
            unversioned=conversation.unversioned,
        )

    def play(self) -> dict[str, Answer]:
        answers = {}
        try:
            create_namespace(self._plane, self._names["ns"])
            for number, step in enumerate(self._conversation.steps, 1):
                label = f"{number}: {step.label}"
                try:
                    answer = self._step(step, label)
                except Exception as error:
                    raise AssertionError(f"step {number} ({step.close or step.label}): {error}") from error
                if step.is_recorded:
                    assert answer is not None
                    answers[label] = answer
        finally:
            self._clean_up()
        return answers

    def _step(self, step: Step, label: str) -> Answer | None:
        if step.close:
            self._close(step.close)
            return None
        if step.read:
            return self._read(step)
        if self._webhooks is not None:
            if step.webhook:
                self._webhooks.answers[step.webhook] = json.loads(self._filled(json.dumps(step.answer)))
                return None
            if step.asked:
                asked = self._webhooks.asked(step.asked)
                return None if step.unrecorded else {"reviews": self._mask.value(asked)}
        if self._recorded is not None and step.is_recorded:
            self._rehearse(step, self._recorded.get(label, {}))
        mask = self._mask
        while True:
            # Count the uids and versions of the last answer only: those of earlier ones depend on timing.
            self._mask = copy.deepcopy(mask)
            reviews = self._copy_reviews()
            got = self._await(step)
            if got is None:
                return {"status": int(http.client.OK)}
            answer = self._masked(got)
            if self._is_final(step, answer, label) or not self._is_patient():
                break
            self._restore_reviews(reviews)
        if step.unrecorded:
            assert answer["status"] < http.client.BAD_REQUEST, answer
        for name, path in step.save.items():
            self._names[name] = str(_value(got.value, path))
        return answer

    def _rehearse(self, step: Step, recorded: Answer) -> None:
        """If the recorded answer is a 4xx error, wait until a dry run of the step fails too."""
        is_refused = 400 <= recorded.get("status", 0) < 500
        if not is_refused or (rehearsal := _dry_run(step)) is None:
            return
        reviews = self._copy_reviews()
        while (got := self._exchange(rehearsal)) and got.status < http.client.BAD_REQUEST:
            if not self._is_patient():
                break
        self._restore_reviews(reviews)

    def _is_final(self, step: Step, answer: Answer, label: str) -> bool:
        """Return whether the player must not repeat the step after this answer."""
        if self._recorded is None or not _changes_nothing(step, answer["status"]):
            return True
        if step.unrecorded:
            return answer["status"] < http.client.BAD_REQUEST
        return not any(differences(self._recorded.get(label), answer))

    def _is_patient(self) -> bool:
        """Wait for a moment; return False when the conversation has waited too long in total."""
        time.sleep(POLL)
        self._waited += POLL
        return self._waited < PATIENCE

    def _copy_reviews(self) -> dict[str, list[Answer]]:
        reviews = {} if self._webhooks is None else self._webhooks.reviews
        return {path: [*each] for path, each in reviews.items()}

    def _restore_reviews(self, reviews: dict[str, list[Answer]]) -> None:
        if self._webhooks is not None:
            self._webhooks.reviews = reviews

    def _await(self, step: Step) -> _Got | None:
        """Send the request until the step's condition is true; return the answer, or None for a watch."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            got = self._exchange(step)
            if got is None or self._is_awaited(step, got):
                return got
            assert time.monotonic() < deadline, f"timeout; last: {got}"
            time.sleep(POLL)

    def _is_awaited(self, step: Step, got: _Got) -> bool:
        if step.until_status:
            return got.status == step.until_status
        if not any(step.until_warning in text for text in got.headers.get_all("Warning", [""])):
            return False
        if any(_value(got.value, path) == self._filled(before) for path, before in step.until_not.items()):
            return False
        return all(_value(got.value, path) == self._filled(wanted) for path, wanted in step.until.items())

    def _exchange(self, step: Step) -> _Got | None:
        """Send the request; return the answer, or None if the request opens a watch."""
        connection, response = self._send(step)
        if step.open and response.status == http.client.OK:
            self._watches[step.open] = connection, response
            del self._connections[step.user]
            return None
        return _Got(response.status, response.headers, response.read().decode())

    def _masked(self, got: _Got) -> Answer:
        answer: Answer = {"status": got.status}
        for name in HEADERS:
            if values := got.headers.get_all(name):
                answer[name.lower()] = [self._mask.text(value) for value in values]
        media = (got.headers.get("Content-Type") or "").partition(";")[0]
        if media != "application/json":
            answer["type"] = media
        if got.value is None:
            answer["text"] = self._mask.text(got.text)
        else:
            answer["body"] = self._mask.value(got.value)
        return answer

    def _read(self, step: Step) -> Answer:
        _, response = self._watches[step.read]
        events: list[Any] = []
        while len(events) < step.events:
            line = response.readline()
            event = json.loads(line) if line.strip() else "the end"
            if not _is_periodic(event):
                events.append(self._mask.value(event))
        return {"events": events}

    def _close(self, name: str) -> None:
        connection, response = self._watches.pop(name)
        response.close()
        connection.close()

    def _send(self, step: Step) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        method, _, target = self._filled(step.request).partition(" ")
        credentials, context = self._access(step.user)
        headers = {"Accept": step.accept, "User-Agent": "conversation"}
        headers |= {name: self._filled(value) for name, value in step.headers.items()}
        if credentials.token is not None and "Authorization" not in headers:
            headers["Authorization"] = f"Bearer {credentials.token}"
        body = None
        if step.text is not None:
            body = self._filled(step.text)
        elif step.body is not None:
            body = self._filled(json.dumps(step.body))
        if body is not None:
            headers["Content-Type"] = step.type
        if step.user not in self._connections:
            netloc = urlsplit(credentials.server).netloc
            connection = http.client.HTTPSConnection(netloc, timeout=TIMEOUT, context=context)
            self._connections[step.user] = connection
        connection = self._connections[step.user]
        if time.monotonic() - self._used.get(step.user, 0.0) > IDLE:
            connection.close()  # the next request reconnects, because the server may have closed it
        self._used[step.user] = time.monotonic()
        connection.request(method, quote(target, safe=PLAIN), body and body.encode(), headers)
        return connection, connection.getresponse()

    def _access(self, user: str) -> tuple[Credentials, ssl.SSLContext]:
        if user not in self._accesses:
            kubeconfig = self._plane.user_kubeconfig(user) if user else self._plane.kubeconfig
            credentials = Credentials.read(kubeconfig)
            context = credentials.ssl_context(self._plane.folder / "conversation")
            self._accesses[user] = credentials, context
        return self._accesses[user]

    def _filled(self, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        for name, value in self._names.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def _clean_up(self) -> None:
        for name in list(self._watches):
            self._close(name)
        for connection in self._connections.values():
            connection.close()
        for request in (*self._conversation.cleanup, "DELETE /api/v1/namespaces/{ns}"):
            method, _, path = self._filled(request).partition(" ")
            with contextlib.suppress(Exception):
                self._plane.api.request(method, path)
        if self._webhooks is not None:
            self._webhooks.__exit__()


def _changes_nothing(step: Step, status: int) -> bool:
    """Return whether the step, which got this status, has changed nothing and may be repeated."""
    method, _, target = step.request.partition(" ")
    return (
        method == "GET"
        or status >= http.client.BAD_REQUEST
        or "dryRun=All" in target
        or target.startswith(UNSTORED)
    )


def _dry_run(step: Step) -> Step | None:
    """Return the step as a dry run; None if it cannot be a dry run, or has a condition (`until`)."""
    method, _, target = step.request.partition(" ")
    path = target.partition("?")[0]
    is_conditional = step.until or step.until_not or step.until_status or step.until_warning
    if method == "GET" or is_conditional or "dryRun" in target or path.endswith(CONNECTIONS):
        return None
    if method == "DELETE" and (step.body is not None or step.text is not None):
        # The server reads a deletion's options from the body, if there is one.
        if not isinstance(step.body, dict) or "dryRun" in step.body:
            return None
        return msgspec.structs.replace(step, body={**step.body, "dryRun": ["All"]})
    return msgspec.structs.replace(step, request=f"{step.request}{'&' if '?' in target else '?'}dryRun=All")


def _is_periodic(event: Any) -> bool:
    """Return whether the event is a bookmark that the server sends from time to time."""
    if not isinstance(event, dict) or event["type"] != "BOOKMARK":
        return False
    return not event["object"]["metadata"].get("annotations")


def _value(value: Any, path: str) -> Any:
    """Return the value at a path such as `a.b.0.c`; None if the path does not exist."""
    for part in path.split("."):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value
