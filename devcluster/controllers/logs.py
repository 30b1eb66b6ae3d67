"""Simulated container logs, which are equal at each read, and which a client can follow."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from devcluster.api.interfaces import ALL_LINES, LogOptions
from devcluster.clock import Clock
from devcluster.controllers.container_runtime import ContainerRuntime, log_of
from devcluster.controllers.images import Exited
from devcluster.errors import StatusError, bad_request
from devcluster.storage import Change, Key, Store

Object = dict[str, Any]

INTERVAL = datetime.timedelta(seconds=5)
"""The time between two lines of a running container."""
REMEMBERED = 10_000
"""The maximum number of log lines of a container; earlier ones are dropped."""


class PodLogs:
    """Simulated logs: a line at the start, every five seconds and at the end, or a known program's output."""

    def __init__(self, store: Store, clock: Clock, runtime: ContainerRuntime) -> None:
        self._store = store
        self._clock = clock
        self._runtime = runtime

    def stream(self, pod: Object, container: str, options: LogOptions = ALL_LINES) -> AsyncIterator[bytes]:
        """Return the log lines until now; with `follow`, also the later lines until the container ends.

        Raises:
            StatusError: 400, the container has not started yet, or has no previous run.
        """
        run = _Run.of(pod, container, previous=options.previous)
        if (told := log_of(pod)) is not None:
            run.printed = told.splitlines()
        elif run.finished is not None:
            run.printed = self._printed(pod, container)
        return self._stream(pod, run, options)

    def _printed(self, pod: Object, container: str) -> Sequence[str] | None:
        """Return the output of a container that exits immediately, or None if the lines are generated."""
        for each in pod["spec"]["containers"]:
            if each["name"] == container:
                outcome = self._runtime.outcome(pod, each)
                return outcome.log if isinstance(outcome, Exited) and outcome.after is None else None
        return None

    async def _stream(self, pod: Object, run: _Run, options: LogOptions) -> AsyncIterator[bytes]:
        since, last, now = options.since, options.tail_lines, self._clock.now()
        lines = [line for line in run.lines(now) if since is None or line[0] >= since]
        for line in lines if last is None else lines[max(len(lines) - last, 0) :]:
            yield _written(line, timestamps=options.timestamps)
        if options.follow and not options.previous and run.finished is None:
            async for line in self._follow(pod, run, run.count(now)):
                yield _written(line, timestamps=options.timestamps)

    async def _follow(self, pod: Object, run: _Run, count: int) -> AsyncIterator[_Line]:
        """Yield the lines after the first `count` ones until the run ends."""
        metadata = pod["metadata"]
        key, changed = Key("", "pods", metadata["namespace"], metadata["name"]), asyncio.Event()

        def notice(change: Change) -> None:
            if change.key == key:
                changed.set()

        unsubscribe = self._store.subscribe(notice)
        try:
            while True:
                stored = self._store.get(key)
                if stored is None or stored.uid != metadata["uid"]:
                    return
                current = _Run.find(stored.decode(), run.container)
                if current is None or current.started != run.started:
                    return
                now = self._clock.now()
                while run.printed is None and count < current.count(now):
                    yield run.line(count)
                    count += 1
                if current.finished is not None:
                    if run.printed is None:
                        yield current.last_line
                    return
                changed.clear()
                seconds = (run.line(count)[0] - now).total_seconds()
                try:
                    async with asyncio.timeout(max(seconds, 0.0)):
                        await changed.wait()
                except TimeoutError:
                    continue
        finally:
            unsubscribe()


_Line = tuple[datetime.datetime, str]


class _Run:
    """Run of a container, from its start to its end."""

    def __init__(self, container: str, image: str, state: Object) -> None:
        self.container = container
        self._image = image
        ended = state.get("terminated")
        self.started = datetime.datetime.fromisoformat((ended or state["running"])["startedAt"])
        self.finished = datetime.datetime.fromisoformat(ended["finishedAt"]) if ended else None
        self._exit_code = ended["exitCode"] if ended else 0
        self.printed: Sequence[str] | None = None
        """All lines of a known program or of an annotation; None for generated lines."""

    @classmethod
    def of(cls, pod: Object, container: str, *, previous: bool) -> _Run:
        """Return the current or the `previous` run; raise StatusError, 400, if it does not exist."""
        name = pod["metadata"]["name"]
        run = cls.find(pod, container, previous=previous)
        if run is not None:
            return run
        if previous:
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        raise _waiting(pod, container)

    @classmethod
    def find(cls, pod: Object, container: str, *, previous: bool = False) -> _Run | None:
        """Return the current run or, with `previous`, the previous run; None if it does not exist."""
        status = _container_status(pod, container)
        image = status.get("image", "")
        state, last = status.get("state", {}), status.get("lastState", {})
        # A container that waits for its next attempt shows the log of its last one.
        candidates = [last] if previous else [state, last]
        for each in candidates:
            if "running" in each or each.get("terminated", {}).get("startedAt"):
                return cls(container, image, each)
        return None

    def count(self, now: datetime.datetime) -> int:
        """Return the number of lines printed until `now`, without the last line of an ended container."""
        until = self.finished or now
        return max(int((until - self.started) / INTERVAL), 0) + 1

    def line(self, number: int) -> _Line:
        time = self.started + number * INTERVAL
        if not number:
            return time, f"{self.container}: started from image {self._image}"
        return time, f"{self.container}: running for {int((number * INTERVAL).total_seconds())}s"

    @property
    def last_line(self) -> _Line:
        assert self.finished is not None
        word = f"failed with exit code {self._exit_code}" if self._exit_code else "done"
        return self.finished, f"{self.container}: {word}"

    def lines(self, now: datetime.datetime) -> Iterator[_Line]:
        if self.printed is not None:
            return ((self.started, line) for line in self.printed)
        count = self.count(now)
        lines: Iterator[_Line] = map(self.line, range(max(count - REMEMBERED, 0), count))
        return itertools.chain(lines, [self.last_line]) if self.finished is not None else lines


def _container_status(pod: Object, container: str) -> Object:
    status = pod.get("status") or {}
    listed = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return next((each for each in listed if each["name"] == container), {})


def _waiting(pod: Object, container: str) -> StatusError:
    waiting = _container_status(pod, container).get("state", {}).get("waiting", {})
    reason = waiting.get("reason", "ContainerCreating")
    text = "trying and failing to pull image" if reason in {"ImagePullBackOff", "ErrImagePull"} else reason
    return bad_request(
        f'container "{container}" in pod "{pod["metadata"]["name"]}" is waiting to start: {text}'
    )


def _written(line: _Line, *, timestamps: bool) -> bytes:
    time, text = line
    if timestamps:
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S.%f000Z')} {text}\n".encode()
    return f"{text}\n".encode()
