"""Kinds of apps/v1, as far as operators and their clients use them, and the types of their specs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from manager.api import ApiModel, Resource
from manager.api.builtin import importer, names_of
from manager.api.pod_health import PodHealth, Problem, problem_of_pods

__all__ = ["Deployment", "DeploymentCondition", "DeploymentStatus"]

if TYPE_CHECKING:
    from manager.api.builtin.apps_v1_workload import *
else:
    __getattr__ = importer("apps_v1", globals())
    __all__ += names_of("apps_v1")  # noqa: PLE0605 - a list, too


class DeploymentCondition(ApiModel):
    """An aspect of a Deployment's state: Available, Progressing or ReplicaFailure."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class DeploymentStatus(ApiModel):
    """A Deployment's state. Counts that the server leaves out are 0."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: list[DeploymentCondition] = Field(default_factory=list)


class Deployment(Resource, group="apps", version="v1", plural="deployments"):
    """Keeps a number of pods running."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: DeploymentStatus = Field(default_factory=DeploymentStatus)

    @property
    def is_available(self) -> bool:
        """Return whether the Deployment reports that enough of its pods are up."""
        return any(each.type == "Available" and each.status == "True" for each in self.status.conditions)

    def is_rolled_out(self, size: int) -> bool:
        """Return whether all replicas are of the latest spec, ready, and as many as `size`."""
        status = self.status
        seen = status.observed_generation >= (self.metadata.generation or 0)
        return seen and status.replicas == status.updated_replicas == status.ready_replicas == size

    @property
    def failure(self) -> Problem | None:
        """Why it does not get on: its pods are refused, or do not become ready in time; None if it does."""
        theirs = {each.type: each for each in self.status.conditions}
        refused, progress = theirs.get("ReplicaFailure"), theirs.get("Progressing")
        if refused is not None and refused.status == "True":
            return Problem(refused.reason or "ReplicaFailure", refused.message)
        if progress is not None and progress.status == "False":
            return Problem(progress.reason or "NotProgressing", progress.message)
        return None

    def problem(self, size: int, pods: Sequence[PodHealth] = ()) -> Problem | None:
        """Return why fewer than `size` replicas are ready: a problem of `pods` (`ctx.pods`), or `failure`.

        A pod's own problem says more than a Deployment's message that pods do not become ready in time.
        """
        of_pods = problem_of_pods(pods, missing=self.status.ready_replicas < size)
        failure = self.failure
        if of_pods is None or failure is None or failure.reason == "ProgressDeadlineExceeded":
            return of_pods or failure
        return Problem(failure.reason, f"{failure.message}; {of_pods.message}")

    def conditions_for(
        self, size: int, pods: Sequence[PodHealth] = ()
    ) -> Iterator[tuple[str, bool, str, str]]:
        """Yield the conditions of an object that this Deployment does the work of, for `ctx.condition`.

        They are Available, Progressing (until `size` replicas are rolled out) and Degraded (see `problem`),
        each with its status, reason and message. With a problem, the first two have its reason if they are
        not as wanted. `pods` are the ones of `ctx.pods`.
        """
        ready = f"{self.status.ready_replicas} of {size} replicas are ready"
        available, rolled_out, problem = self.is_available, self.is_rolled_out(size), self.problem(size, pods)
        if available:
            yield "Available", True, "EnoughReady", ready
        else:
            yield "Available", False, problem.reason if problem else "NotEnoughReady", ready
        if rolled_out:
            yield "Progressing", False, "RolledOut", ready
        elif problem is not None:
            yield "Progressing", True, problem.reason, f"{ready}; {problem.message}"
        elif self.status.ready_replicas >= size:
            yield "Progressing", True, "RollingOut", f"{ready}, and not all are up to date"
        else:
            yield "Progressing", True, "RollingOut", ready
        yield "Degraded", problem is not None, *(problem or ("AsExpected", ""))
