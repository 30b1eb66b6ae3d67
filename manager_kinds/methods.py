"""The methods of some built-in kinds, in addition to their fields."""

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
"""Condition types and statuses by which a Deployment reports a failure, with the default reasons."""


class SecretMethods:
    """The methods of a Secret."""

    def value(self, key: str) -> bytes | None:
        """Return the decoded value of the key; None if the Secret lacks it.

        Raises ValueError if the value is not base64, which an API server never stores.
        """
        data: Mapping[str, str | None] | None = getattr(self, "data", None)
        encoded = (data or {}).get(key)
        return None if encoded is None else base64.b64decode(encoded, validate=True)


class DeploymentMethods:
    """The methods of a Deployment: the progress of its rollout, and the reason for a delay."""

    if TYPE_CHECKING:
        metadata: ObjectMeta

    @property
    def _status(self) -> Mapping[str, Any]:
        status = getattr(self, "status", None)
        return status if isinstance(status, dict) else {}

    def _condition(self, name: str) -> Mapping[str, Any]:
        if conditions := self._status.get("conditions"):
            for each in objects(conditions):
                if each.get("type") == name:
                    return each
        return {}

    @property
    def ready_replicas(self) -> int:
        """Return the number of the Deployment's ready pods."""
        return number(self._status.get("readyReplicas"))

    @property
    def is_available(self) -> bool:
        """Return whether the Deployment reports that enough of its pods are available."""
        return self._condition("Available").get("status") == "True"

    def is_rolled_out(self, size: int) -> bool:
        """Return whether `size` replicas exist, and all have the latest spec and are ready."""
        status = self._status
        if number(status.get("observedGeneration")) < self.metadata.generation:
            return False
        counts = (number(status.get(each)) for each in ("replicas", "updatedReplicas", "readyReplicas"))
        return all(each == size for each in counts)

    @property
    def failure(self) -> Problem | None:
        """Return the failure that the Deployment reports, such as refused or late pods; None without one."""
        for name, wrong, otherwise in _FAILURES:
            condition = self._condition(name)
            if condition and condition.get("status") == wrong:
                return Problem(text(condition.get("reason")) or otherwise, text(condition.get("message")))
        return None

    def problem(self, size: int, pods: Sequence[PodHealth] = ()) -> Problem | None:
        """Return the problem of `pods` (`ctx.pods`), the `failure`, or both; `size` is the desired number.

        A pod's own problem is more specific than a Deployment's message that pods are not ready in time.
        """
        of_pods = problem_of_pods(pods, missing=self.ready_replicas < size) if pods else None
        failure = self.failure
        if of_pods is None or failure is None or failure.reason == "ProgressDeadlineExceeded":
            return of_pods or failure
        return Problem(failure.reason, f"{failure.message}; {of_pods.message}")

    def conditions_for(
        self, size: int, pods: Sequence[PodHealth] = ()
    ) -> Iterator[tuple[ConditionType, bool, str, str]]:
        """Yield an object's conditions from the state of this Deployment, as arguments of `ctx.condition`.

        The conditions are Available, Progressing (until `size` replicas are rolled out) and Degraded (see
        `problem`), each with its status, reason and message. If there is a problem, its reason also explains
        why Available is false or Progressing is true. `pods` is the result of `ctx.pods`.
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
