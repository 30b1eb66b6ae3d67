"""Simulated container runtime and probes; a pod's annotations can make its containers fail."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from devcluster.builtin.checks import value_of
from devcluster.builtin.metrics import PREFIX
from devcluster.controllers.client import Object, controller_of
from devcluster.controllers.controller import View
from devcluster.controllers.images import (
    IMAGES,
    Exited,
    HttpRequest,
    HttpResponse,
    Image,
    ImageReference,
    InvalidImageName,
    Running,
    Start,
)
from devcluster.controllers.pod_status import KILLED
from devcluster.quantity import quoted
from devcluster.urls import split_url

NEVER_READY, CRASH, NO_IMAGE = "never-ready", "crash", "image-pull-error"
BAD_COMMAND, OUT_OF_MEMORY = "bad-command", "out-of-memory"
IMAGE_WORDS = {
    "never-ready": NEVER_READY,
    "crash-loop": CRASH,
    "no-such-image": NO_IMAGE,
    "bad-command": BAD_COMMAND,
    "out-of-memory": OUT_OF_MEMORY,
}


def failure_of(pod: Object, container: Object) -> str:
    """Return the failure (a constant of this module) that the pod's annotations or image request, or ""."""
    if annotations := pod["metadata"].get("annotations"):
        for failure in (NO_IMAGE, BAD_COMMAND, CRASH, OUT_OF_MEMORY, NEVER_READY):
            asked = annotations.get(PREFIX + failure, "").lower()
            if asked == "true" or (failure == OUT_OF_MEMORY and _number(asked) is not None):
                return failure
    image = container.get("image", "")
    return next((failure for word, failure in IMAGE_WORDS.items() if word in image), "")


def log_of(pod: Object) -> str | None:
    """Return the output that an annotation sets for the pod's containers, or None if it is generated."""
    return (pod["metadata"].get("annotations") or {}).get(PREFIX + "log")


def is_lost(node: Object) -> bool:
    """Return whether an annotation of the node stops its kubelet."""
    return annotation_of(node, "lost").lower() == "true"


def annotation_of(obj: Object, name: str) -> str:
    """Return the value of one of devcluster's annotations, or "" if the object does not have it."""
    return str((obj["metadata"].get("annotations") or {}).get(PREFIX + name, ""))


def seconds_of(pod: Object, name: str, default: float = 0.0) -> float:
    """Return the number of seconds in an annotation, or the default if it is missing or invalid."""
    value = _number(annotation_of(pod, name))
    return default if value is None else value


def _number(text: str) -> float | None:
    try:
        value = float(text.strip().removesuffix("s"))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


_MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class ProbeResult(NamedTuple):
    """Result of a probe: success or failure, with the kubelet's message."""

    success: bool
    output: str = ""
    """The reason for a failure, or a warning of a success."""


class _ProbeFailed(Exception):
    """Error for a probe without a response; the message equals the kubelet's."""


def probe(container: Object, kind: str, running: Running, address: str) -> ProbeResult:
    """Run one probe; `kind` is a field of the container such as `readinessProbe`, `address` the pod's IP."""
    asked = container.get(kind)
    if not asked or running.ports is None or asked.get("exec"):
        return ProbeResult(True)
    action = asked.get("httpGet") or asked.get("tcpSocket") or asked["grpc"]
    if action.get("host", address) != address:
        return ProbeResult(True)  # the probe is for another host
    try:
        if "httpGet" in asked:
            return _judged(_get(container, action, running, address))
        _connect(address, _port(container, action["port"]), running)
    except _ProbeFailed as error:
        return ProbeResult(False, str(error))
    return ProbeResult(True)


def _judged(response: HttpResponse) -> ProbeResult:
    if response.status < 200 or response.status >= 400:  # noqa: PLR2004 -- the codes of success
        return ProbeResult(False, f"HTTP probe failed with statuscode: {response.status}")
    if response.status >= 300:  # noqa: PLR2004 -- a redirect to another host
        return ProbeResult(True, f"Probe terminated redirects, Response body: {response.body}")
    return ProbeResult(True)


def _get(container: Object, action: Object, running: Running, address: str) -> HttpResponse:
    """Send the HTTP request of a probe, and follow redirects to the same host."""
    headers = {each["name"].lower(): each["value"] for each in action.get("httpHeaders") or ()}
    authority = f"[{address}]" if ":" in address else address
    scheme, path = action.get("scheme", "HTTP").lower(), action.get("path") or "/"
    url = f"{scheme}://{authority}:{_port(container, action['port'])}/{path.removeprefix('/')}"
    wanted_host = headers.pop("host", "")
    for _ in range(_MOST_REDIRECTS):
        response = _answer(url, wanted_host, headers, running)
        if response.status not in _REDIRECTS or not response.location:
            return response
        try:
            target = split_url(response.location)
            target.port  # noqa: B018 -- reading a port that is too large raises ValueError
        except ValueError as error:
            problem = f"failed to parse Location header {quoted(response.location)}: {error}"
            raise _ProbeFailed(f'Get "{url}": {problem}') from None
        url = urljoin(url, response.location)
        if urlsplit(url).hostname != address:
            return response
        if target.netloc:
            wanted_host = ""
    raise _ProbeFailed(f'Get "{url}": stopped after {_MOST_REDIRECTS} redirects')


def _answer(url: str, host: str, headers: dict[str, str], running: Running) -> HttpResponse:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        _connect(parts.hostname or "", port, running)
    except _ProbeFailed as error:
        raise _ProbeFailed(f'Get "{url}": {error}') from None
    handler = (running.ports or {})[port]
    if handler is None:
        raise _ProbeFailed(
            f'Get "{url}": net/http: HTTP/1.x transport connection broken: malformed HTTP response'
        )
    if parts.scheme == "https":
        raise _ProbeFailed(f'Get "{url}": http: server gave HTTP response to HTTPS client')
    return handler(HttpRequest(host or parts.netloc, parts.path, headers))


def _connect(host: str, port: int, running: Running) -> None:
    if port not in (running.ports or {}):
        shown = f"[{host}]" if ":" in host else host
        raise _ProbeFailed(f"dial tcp {shown}:{port}: connect: connection refused")


def _port(container: Object, port: int | str) -> int:
    """Return a port's number; `port` may be the name of a container port."""
    if isinstance(port, int):
        return port
    for each in container.get("ports") or ():
        if each.get("name") == port:
            return int(each["containerPort"])
    raise _ProbeFailed(f"couldn't find port: {port}")


NOT_EXECUTED = 128
_NOT_FOUND = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create "
    "failed: unable to start container process: error during container init: "
    'exec: "{}": executable file not found in $PATH'
)
_REFERENCE = re.compile(r"\$(?:\$|\(([A-Za-z_.-][\w.-]*)\))")
_SOURCES = {
    "secretKeyRef": ("secrets", "Secret"),
    "configMapKeyRef": ("configmaps", "ConfigMap"),
    "secretRef": ("secrets", "Secret"),
    "configMapRef": ("configmaps", "ConfigMap"),
}


class NotPulled(NamedTuple):
    """Outcome of a failed pull of an image; `message` is the container runtime's."""

    message: str


class NotStarted(NamedTuple):
    """Outcome of a container that the kubelet cannot start."""

    reason: str
    message: str


Outcome = Running | Exited | NotPulled | NotStarted


class _ConfigError(Exception):
    """Error for a container whose configuration the kubelet cannot build."""


class ContainerRuntime:
    """Simulated container runtime, which decides how the start of a container ends."""

    def __init__(self, view: View, images: Mapping[str, Image] | None = None) -> None:
        """Set up the runtime; `images` adds programs to `IMAGES`, or replaces programs of the same name."""
        self._view = view
        self._images = {**IMAGES, **(images or {})}

    def outcome(self, pod: Object, container: Object) -> Outcome:
        """Return the outcome of starting a container of the pod now."""
        text, failure = container.get("image", ""), failure_of(pod, container)
        try:
            reference = ImageReference.parse(text)
        except InvalidImageName as error:
            quoted = json.dumps(text, ensure_ascii=False)
            why = f"couldn't parse image name {quoted}: {error}"
            return NotStarted("InvalidImageName", f"Failed to apply default image tag {quoted}: {why}")
        if failure == NO_IMAGE:
            full = reference.full
            return NotPulled(
                f'rpc error: code = NotFound desc = failed to pull and unpack image "{full}": '
                f'failed to resolve reference "{full}": {full}: not found'
            )
        if failure in {BAD_COMMAND, OUT_OF_MEMORY, CRASH}:
            return _failed(pod, container, failure)
        outcome = self._run(pod, container, reference)
        if not isinstance(outcome, Running):
            return outcome
        if failure == NEVER_READY:
            return Running(ready=False)
        manager = controller_of(pod)
        if manager is not None and manager["kind"] == "Job":
            return Exited(0, after=seconds_of(pod, "run-time"))
        return outcome

    def init_outcome(self, pod: Object, container: Object) -> Outcome:
        """Return the outcome of starting an init container: Running unless it fails, even if it completes.

        The pod's annotations do not apply to init containers.
        """
        plain = {**pod, "metadata": {**pod["metadata"], "annotations": {}}}
        outcome = self.outcome(plain, container)
        return Running() if isinstance(outcome, Exited) and not outcome.code else outcome

    def _run(self, pod: Object, container: Object, reference: ImageReference) -> Outcome:
        image = self._images.get(reference.program)
        if image is None:
            return Running()
        try:
            start = self._start(pod, container, reference, image)
        except _ConfigError as error:
            return NotStarted("CreateContainerConfigError", str(error))
        outcome = image.program(start)
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        if isinstance(outcome, Running) and limit is not None and value_of(limit) < outcome.memory:
            return Exited(KILLED, reason="OOMKilled")
        return outcome

    def _start(self, pod: Object, container: Object, reference: ImageReference, image: Image) -> Start:
        security = {
            field: value
            for each in (pod["spec"], container)
            for field, value in (each.get("securityContext") or {}).items()
            if value is not None
        }
        user = security.get("runAsUser")
        if security.get("runAsNonRoot"):
            _check_user(pod, container, user, image.user)
        env = dict(self._environment(pod, container))
        return Start(
            container=container["name"],
            image=reference,
            command=[_expand(each, env) for each in container.get("command") or ()],
            args=[_expand(each, env) for each in container.get("args") or ()],
            env=env,
            user=user,
        )

    def _environment(self, pod: Object, container: Object) -> Iterator[tuple[str, str]]:
        known: dict[str, str] = {}
        for each in container.get("envFrom") or ():
            for kind in _SOURCES.keys() & each.keys():
                prefix = each.get("prefix") or ""
                known |= {f"{prefix}{key}": text for key, text in self._data(pod, kind, each[kind]).items()}
        for each in container.get("env") or ():
            value = self._value(pod, each, known)
            if value is not None:
                known[each["name"]] = value
        yield from known.items()

    def _value(self, pod: Object, variable: Object, known: Mapping[str, str]) -> str | None:
        source = variable.get("valueFrom")
        if not source:
            return _expand(variable.get("value", ""), known)
        for kind in _SOURCES.keys() & source.keys():
            reference = source[kind]
            data, key = self._data(pod, kind, reference), reference["key"]
            if key not in data and not reference.get("optional"):
                where = f"{_SOURCES[kind][1]} {pod['metadata']['namespace']}/{reference['name']}"
                raise _ConfigError(f"couldn't find key {key} in {where}")
            return data.get(key)
        if "fieldRef" in source:
            return _field(pod, source["fieldRef"]["fieldPath"])
        return "0"  # an amount of a resource

    def _data(self, pod: Object, kind: str, reference: Object) -> dict[str, str]:
        plural, shown = _SOURCES[kind]
        found = self._view.get(("", plural), pod["metadata"]["namespace"], reference.get("name", ""))
        if found is None:
            if reference.get("optional"):
                return {}
            raise _ConfigError(f'{shown.lower()} "{reference.get("name", "")}" not found')
        data = found.get("data") or {}
        if shown == "Secret":
            return {key: base64.b64decode(text).decode(errors="replace") for key, text in data.items()}
        return dict(data)


def _failed(pod: Object, container: Object, failure: str) -> Exited:
    name = container["name"]
    if failure == BAD_COMMAND:
        program = (container.get("command") or [name])[0]
        return Exited(NOT_EXECUTED, reason="StartError", message=_NOT_FOUND.format(program))
    if failure == OUT_OF_MEMORY:
        return Exited(KILLED, reason="OOMKilled", after=seconds_of(pod, OUT_OF_MEMORY) or None)
    started = f"{name}: started from image {container.get('image', '')}"
    return Exited(1, (started, f"{name}: failed with exit code 1"))


def _check_user(pod: Object, container: Object, user: int | None, name: str) -> None:
    """Raise an error if a container with `runAsNonRoot` would run as root."""
    if user == 0:
        wrong = "container's runAsUser breaks non-root policy"
    elif user is not None:
        return
    elif name:
        unknown = f"image has non-numeric user ({name}), cannot verify user is non-root"
        wrong = f"container has runAsNonRoot and {unknown}"
    else:
        wrong = "container has runAsNonRoot and image will run as root"
    metadata = pod["metadata"]
    where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    raise _ConfigError(f'{wrong} (pod: "{where}", container: {container["name"]})')


def _expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable's value, or keep it if unknown; `$$` becomes one dollar sign."""

    def value(match: re.Match[str]) -> str:
        return env.get(match[1], match[0]) if match[1] else "$"

    return _REFERENCE.sub(value, text)


def _field(pod: Object, path: str) -> str:
    """Return the text of the pod's field at `path`, or "" if the field is missing."""
    first, _, key = path.partition("['")
    found: Any = pod
    for part in first.split("."):
        found = (found or {}).get(part)
    if key:
        found = (found or {}).get(key.removesuffix("']"))
    return found if isinstance(found, str) else ""
