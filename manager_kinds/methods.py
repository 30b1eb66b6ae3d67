"""The methods that some kinds have beyond their fields."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manager.api.condition import AVAILABLE, DEGRADED, PROGRESSING, ConditionType
from manager.api.resource import number, objects, text
from manager_kinds.pod_health import PodHealth, Problem, problem_of_pods

if TYPE_CHECKING:
    from manager.api import ObjectMeta

__all__ = ["DeploymentMethods", "SecretMethods"]


_FAILURES = (("ReplicaFailure", "True", "ReplicaFailure"), ("Progressing", "False", "NotProgressing"))
"""Types and statuses of conditions by which a Deployment reports a failure, and the reason if it has none."""


class SecretMethods:
    """The methods of a Secret."""

    def value(self, key: str) -> bytes | None:
        """Return the decoded value of the key; None when the Secret does not have it.

        Raises ValueError when the value is not base64, which an API server never stores.
        """
        data: Mapping[str, str | None] | None = getattr(self, "data", None)
        encoded = (data or {}).get(key)
        return None if encoded is None else base64.b64decode(encoded, validate=True)


class DeploymentMethods:
    """The methods of a Deployment: how far it is rolled out, and why not further."""

    if TYPE_CHECKING:
        metadata: ObjectMeta

    @property
    def _status(self) -> Mapping[str, Any]:
        status = getattr(self, "status", None)
        return status if isinstance(status, dict) else {}

    def _condition(self, name: str) -> Mapping[str, Any]:
        """Return the condition of that type; empty if there is none."""
        if conditions := self._status.get("conditions"):
            for each in objects(conditions):
                if each.get("type") == name:
                    return each
        return {}

    @property
    def ready_replicas(self) -> int:
        """The number of its pods that are ready."""
        return number(self._status.get("readyReplicas"))

    @property
    def is_available(self) -> bool:
        """Return whether the Deployment reports that enough of its pods are up."""
        return self._condition("Available").get("status") == "True"

    def is_rolled_out(self, size: int) -> bool:
        """Return whether all replicas are of the latest spec, ready, and as many as `size`."""
        status = self._status
        if number(status.get("observedGeneration")) < self.metadata.generation:
            return False
        counts = (number(status.get(each)) for each in ("replicas", "updatedReplicas", "readyReplicas"))
        return all(each == size for each in counts)

    @property
    def failure(self) -> Problem | None:
        """Why it does not get on: its pods are refused, or do not become ready in time; None if it does."""
        for name, wrong, otherwise in _FAILURES:
            condition = self._condition(name)
            if condition and condition.get("status") == wrong:
                return Problem(text(condition.get("reason")) or otherwise, text(condition.get("message")))
        return None

    def problem(self, size: int, pods: Sequence[PodHealth] = ()) -> Problem | None:
        """Return why fewer than `size` replicas are ready: a problem of `pods` (`ctx.pods`), or `failure`.

        A pod's own problem says more than a Deployment's message that pods do not become ready in time.
        """
        of_pods = problem_of_pods(pods, missing=self.ready_replicas < size) if pods else None
        failure = self.failure
        if of_pods is None or failure is None or failure.reason == "ProgressDeadlineExceeded":
            return of_pods or failure
        return Problem(failure.reason, f"{failure.message}; {of_pods.message}")

    def conditions_for(
        self, size: int, pods: Sequence[PodHealth] = ()
    ) -> Iterator[tuple[ConditionType, bool, str, str]]:
        """Yield the conditions of an object that this Deployment does the work of, for `ctx.condition`.

        They are Available, Progressing (until `size` replicas are rolled out) and Degraded (see `problem`),
        each with its status, reason and message. With a problem, the first two have its reason if they are
        not as wanted. `pods` are the ones of `ctx.pods`.
        """
        count = self.ready_replicas
        ready = f"{count} of {size} replicas are ready"
        rolled_out, problem = self.is_rolled_out(size), self.problem(size, pods)
        if self.is_available:
            yield AVAILABLE, True, "EnoughReady", ready
        else:
            yield AVAILABLE, False, problem.reason if problem else "NotEnoughReady", ready
        if rolled_out:
            yield PROGRESSING, False, "RolledOut", ready
        elif problem is not None:
            yield PROGRESSING, True, problem.reason, f"{ready}; {problem.message}"
        elif count >= size:
            yield PROGRESSING, True, "RollingOut", f"{ready}, and not all are up to date"
        else:
            yield PROGRESSING, True, "RollingOut", ready
        yield DEGRADED, problem is not None, *(problem or ("AsExpected", ""))
