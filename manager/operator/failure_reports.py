"""Failed reconciles, as conditions and Events of their objects report them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from manager.api import ObjectKey, Unstructured
from manager.client.reader import decode_object
from manager.controller.failure import Failure, describe, explain, is_transient
from manager.kube.errors import ApiError, KubeError, NoMatch
from manager.operator.context import RECONCILE_FAILED, Blocked, Context
from manager.telemetry.logs import reconcile_log
from manager.util import clock

if TYPE_CHECKING:
    from manager.operator.operator import Operator

_PERSISTENT = 10
"""So many transient failures in a row, over some five seconds, are reported."""

_RENEW_AFTER = 60.0
"""Seconds for which a message stays as it is when only numbers in it differ, such as a port."""

_without_numbers = re.compile(r"[0-9]+").sub


@dataclass(slots=True)
class _Failing:
    """An object whose last reconcile has failed."""

    terminal: bool = False
    """Whether no retry can mend it: only a change of something can."""
    transient: int = 0
    """How many transient failures came in a row."""
    reported: Blocked | None = None
    at: float = 0.0
    """When it was reported."""


class FailureReports:
    """Reports of an operator's failed reconciles on the objects, without repetitions."""

    def __init__(self, operator: Operator[Any]) -> None:
        self._operator = operator
        self._of: dict[ObjectKey, _Failing] = {}

    def ended(self, key: ObjectKey) -> None:
        """Note that the object does not fail any more, is gone, or is another replica's."""
        self._of.pop(key, None)

    def is_terminal(self, key: ObjectKey) -> bool:
        """Return whether the last reconcile of the object has failed in a way that no retry can mend."""
        failing = self._of.get(key)
        return failing is not None and failing.terminal

    async def report(self, key: ObjectKey, raw: bytes, error: BaseException) -> None:
        """Report that the reconcile of the object, which is `raw`, has failed.

        A lost race, or an API server that is away for a moment, is reported once it has lasted.
        """
        failing = self._of.setdefault(key, _Failing())
        failing.terminal = Failure.of(error, primary=self._operator.kind.gvk, key=key) is Failure.TERMINAL
        failing.transient = failing.transient + 1 if is_transient(error) else 0
        if 0 < failing.transient < _PERSISTENT:
            return
        # As JSON: the object may not fit its model, and changes of a failed reconcile are not written.
        operator, model = self._operator, self._operator.kind
        kind = Unstructured.of(
            model.gvk.api_version, model.gvk.kind, plural=model.plural, namespaced=model.namespaced
        )
        stored = await decode_object(raw, kind, key)
        ctx = Context(operator, stored)
        deleting = stored.metadata.deletion_timestamp is not None
        if deleting and operator.finalizers.isdisjoint(stored.metadata.finalizers):
            return  # no reconcile will ever take it back
        reason, message = describe(error, operator.errors)
        if deleting:
            by = self._renewed(failing, Blocked("CleanupFailed", f"it fails: {message}"))
            by.__cause__ = error
            operator.cleanup_blocked(by, ctx)
        else:
            by = self._renewed(failing, Blocked(reason, f"{RECONCILE_FAILED}{message}"))
            by.__cause__ = error
            operator.reconcile_failed(by, ctx)
        try:
            await ctx.write_conditions()
        except KubeError as problem:
            reconcile_log().debug("cannot report the failure as a condition", error=explain(problem))
            if isinstance(problem, NoMatch | ApiError) and not is_transient(problem):
                operator.record_once(by, ctx)

    def _renewed(self, failing: _Failing, by: Blocked) -> Blocked:
        """Return what is reported; as before, if only numbers differ and it is not long ago."""
        before, now = failing.reported, clock.monotonic()
        if (
            before is not None
            and now < failing.at + _RENEW_AFTER
            and before.reason == by.reason
            and _without_numbers("0", before.message) == _without_numbers("0", by.message)
        ):
            return Blocked(before.reason, before.message)
        failing.reported, failing.at = Blocked(by.reason, by.message), now
        return by
