"""Long operations: steps with time limits, whose progress is in the status of the object."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from manager.api import DEGRADED, PROGRESSING, READY, Resource, StepsStatus
from manager.cache.record import steps_on
from manager.controller.failure import describe, is_transient
from manager.operator.base import OperatorBase
from manager.operator.conditions import status_model, status_of
from manager.operator.context import Changed, Context, Gone
from manager.operator.declaration import Takes, bare, check_call, check_path
from manager.util import clock

F = TypeVar("F", bound=Callable[..., Awaitable[str | None]])


_LAST_LOOK = 10.0
"""Seconds in which a step past its limit can still prove that it is done."""


class _TooLate(Exception):
    """A step was not done within its time limit; the message explains why."""


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    title: str
    limit: float | None
    every: float | None


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


class Steps:
    '''Long operation of an operator: methods that are called one after another, each until it is done.

        class DatabaseOperator(Operator[Database]):
            """Keeps a database, and upgrades it."""

            upgrade = Steps(".status.upgrade", of=("spec.version",), limit=3600)

            async def reconcile(self, database: Database, ctx: Context) -> None:
                if await ctx.run_steps(self.upgrade):
                    ...

            @upgrade.step(limit=600)
            async def back_up(self, database: Database, ctx: Context) -> str | None:
                """Wait for a backup."""
                job = await ctx.apply(...)
                return None if job.status.get("succeeded") else f"waits for Job {job.metadata.name}"

    The operation begins when a field in `of` differs from its value at the last success, and restarts at the
    first step whenever such a field changes. It fails when a step, or the whole operation, takes longer than
    its limit. A change of the spec starts another attempt.

    A step returns None when it is done, or a text that says what it waits for. It is called again when
    something changes, every `every` seconds, and after a crash: so it must check what exists, and add what is
    missing. An exception counts as an error of the reconcile, and is retried with back-off.
    '''

    def __init__(self, status: str, *, of: Sequence[str], limit: float) -> None:
        """Declare a long operation.

        Args:
            status: the path of a `StepsStatus`, such as `.status.upgrade`.
            of: paths of the fields that the operation realises, such as `spec.version`. The status keeps a
                copy of their values, so they must not be confidential.
            limit: seconds for all steps together.
        """
        if isinstance(of, str) or not of:
            raise TypeError(f"Steps(of=...) takes a list of paths, such as ('spec.version',), not {of!r}")
        self.field = status.removeprefix(".").removeprefix("status.")
        self.of = {path.removeprefix("."): steps_on(path.removeprefix(".")) for path in of}
        self.limit = _checked(limit)
        self.name = ""
        self._steps: list[_Step] = []

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def step(self, *, limit: float | None = None, every: float | None = None) -> Callable[[F], F]:
        """Make a method the next step, which may take `limit` seconds and is called every `every` seconds."""

        def mark(method: F) -> F:
            name = getattr(method, "__name__", "")
            if not inspect.iscoroutinefunction(method):
                raise TypeError(f"a step has to be `async def {name}(self, obj, ctx)`")
            timing = [None if seconds is None else _checked(seconds) for seconds in (limit, every)]
            self._steps.append(_Step(name, _title(name), *timing))
            return cast("F", method)

        return mark

    def check(self, operator: type[OperatorBase], takes: Takes) -> None:
        """Raise TypeError for fields that the operator's kind lacks, and for an unsuitable step."""
        where, kind = f"{operator.__name__}.{self.name}", operator.kind
        status = status_model(kind)
        field = None if status is None else status.model_fields.get(self.field)
        if field is None or bare(field.annotation) is not StepsStatus:
            raise TypeError(f"{where}: {kind.__name__}.status needs a field `{self.field}: StepsStatus`")
        for path, steps in self.of.items():
            if (wrong := check_path(kind, steps)) is not None:
                raise TypeError(f"{where}: {path!r}: {kind.__name__} {wrong}")
        if not self._steps:
            raise TypeError(f"{where} has no steps: mark methods with `@{self.name}.step()`")
        for each in self._steps:
            check_call(operator, each.name, takes)

    async def run(self, operator: OperatorBase, ctx: Context) -> bool:
        """Continue the operation of the object; return whether it is complete."""
        obj, is_new = ctx.object, False
        status: StepsStatus = getattr(status_of(obj), self.field)
        numbers = {each.title: number for number, each in enumerate(self._steps)}
        while True:
            # The answer to a status write may contain a changed spec.
            target, generation = _values(obj, self.of), obj.metadata.generation
            if status.state == "Succeeded" and status.target == target:
                self._show(operator, ctx, False, self._reason("Succeeded"))
                return True
            if status.state == "Failed" and status.target == target and status.generation == generation:
                self._show_failure(status, operator, ctx)
                return False
            # The cache may lack the previous leader's last writes.
            await ctx.confirm(latest=True)
            if status.state != "Running" or status.target != target or status.step not in numbers:
                await self._begin(status, target, ctx)
                continue
            number = numbers[status.step]
            step, (left, late) = self._steps[number], self._time_left(status, self._steps[number])
            try:
                waits = await self._call(operator, step, ctx, left, may_be_done=not is_new)
            except _TooLate as error:
                await self._fail(status, late, str(error) or status.message, operator, ctx)
                continue
            if waits is not None:
                status.message = waits
                ctx.awaits(waits)
                self._show(operator, ctx, True, status.step, f"{status.progress}: {waits}")
                return False
            if number + 1 < len(self._steps):
                await self._advance(status, number + 1, ctx)
                is_new = True
            else:
                await self._succeed(status, ctx)

    async def _call(
        self, operator: OperatorBase, step: _Step, ctx: Context, left: float, *, may_be_done: bool
    ) -> str | None:
        """Call a step that has `left` seconds; return the reason why it waits, or None.

        A step past its limit is called once more if it `may_be_done` by now, for example after an outage.
        """
        if left <= 0 and not may_be_done:
            raise _TooLate
        before, limit = ctx.look_again_after, asyncio.timeout(max(left, _LAST_LOOK))
        ctx.look_again_within(max(left, 0.0))
        try:
            async with limit:
                waits = await getattr(operator, step.name)(ctx.object, ctx)
        except (Gone, Changed):
            raise
        except Exception as error:
            if limit.expired():
                raise _TooLate("the step does not return") from error
            if left > 0 or is_transient(error):
                raise
            raise _TooLate(describe(error, operator.errors)[1]) from error
        if waits is None:
            ctx.look_again_after = before
            return None
        if not isinstance(waits, str):
            raise TypeError(f"{step.name} returns None, or a text that says what it waits for, not {waits!r}")
        if left <= 0:
            raise _TooLate(waits)
        if step.every is not None:
            ctx.look_again_within(step.every)
        return waits

    async def _advance(self, status: StepsStatus, number: int, ctx: Context) -> None:
        """Set the status to the next step, and store it before the step has effects."""
        status.step, status.step_started_at, status.message = self._steps[number].title, clock.now(), ""
        status.progress = f"{number + 1}/{len(self._steps)}"
        await ctx.write_status()

    def _time_left(self, status: StepsStatus, step: _Step) -> tuple[float, str]:
        """Return the remaining seconds, and the message for a time-out."""
        now = clock.now()
        limits = [(status.started_at, self.limit, "all steps together")]
        if step.limit is not None:
            limits.append((status.step_started_at, step.limit, step.title))
        ends = [
            (limit - (now - (since or now)).total_seconds(), f"{what} took longer than {limit:g} s")
            for since, limit, what in limits
        ]
        return min(ends)

    async def _begin(self, status: StepsStatus, target: dict[str, Any], ctx: Context) -> None:
        cancelled = status.state == "Running"
        status.state, status.target, status.generation = "Running", target, ctx.object.metadata.generation
        status.started_at, status.ended_at = clock.now(), None
        await self._advance(status, 0, ctx)
        changes = ", ".join(
            f"{path}: {before} -> {after}" for path, (before, after) in status.changes.items()
        )
        ctx.event(self._reason("Restarted" if cancelled else "Started"), changes or "as it was before")

    async def _succeed(self, status: StepsStatus, ctx: Context) -> None:
        status.state, status.message, status.ended_at = "Succeeded", "", clock.now()
        status.achieved = dict(status.target)
        await ctx.write_status()
        ctx.event(self._reason("Succeeded"), f"{len(self._steps)} steps are done")

    async def _fail(
        self, status: StepsStatus, late: str, why: str, operator: OperatorBase, ctx: Context
    ) -> None:
        status.state, status.ended_at = "Failed", clock.now()
        status.message = f"{late}: {why}" if why else late
        self._show_failure(status, operator, ctx)
        await ctx.write_status()
        ctx.event(self._reason("Failed"), f"{status.step}: {status.message}", warning=True)

    def _show(
        self, operator: OperatorBase, ctx: Context, progressing: bool, reason: str, message: str = ""
    ) -> None:
        """Set the conditions of an operation that is running or has succeeded."""
        if not ctx.reports_by_conditions:
            return
        if PROGRESSING in operator.conditions:
            ctx.condition(PROGRESSING, progressing, reason, message)
        elif progressing and READY in operator.conditions:
            ctx.condition(READY, False, reason, message)
        if DEGRADED in operator.conditions:
            ctx.condition(DEGRADED, False, "AsExpected")

    def _show_failure(self, status: StepsStatus, operator: OperatorBase, ctx: Context) -> None:
        if not ctx.reports_by_conditions:
            return
        reason, message = self._reason("Failed"), f"{status.progress} {status.step}: {status.message}"
        if PROGRESSING in operator.conditions:
            ctx.condition(PROGRESSING, False, reason, message)
        ctx.condition(*operator.condition_of_failure(), reason, message)

    def _reason(self, what: str) -> str:
        return f"{_title(self.name)}{what}"


def _values(obj: Resource, paths: Mapping[str, Sequence[tuple[str, bool]]]) -> dict[str, Any]:
    wire = obj.to_wire()
    return dict(_without_nulls({path: _value(wire, steps) for path, steps in paths.items()}))


def _value(at: Any, steps: Sequence[tuple[str, bool]]) -> Any:
    """Return the value at a path; behind `[*]`, the list of the values in the items that have one."""
    for number, (name, each) in enumerate(steps, start=1):
        at = at.get(name) if isinstance(at, dict) else None
        if each and isinstance(at, list):
            values = (_value(item, steps[number:]) for item in at)
            return [value for value in values if value is not None]
    return at


def _without_nulls(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Remove nulls, which a status cannot store: in a patch, null removes a field."""
    for name, each in value.items():
        if each is not None:
            yield name, dict(_without_nulls(each)) if isinstance(each, dict) else each


def _checked(seconds: float) -> float:
    if not isinstance(seconds, int | float):
        raise TypeError(f"Steps need seconds as a number, not {seconds!r}")
    if not seconds > 0:
        raise ValueError(f"Steps need more than 0 seconds, not {seconds}")
    return seconds
