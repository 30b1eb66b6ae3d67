"""The kinds: DaskCluster, DaskWorkerGroup, DaskJob and DaskAutoscaler."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from manager.api import READY, ApiModel, Column, Int32, Resource, Scale, Status, crd, preserve_unknown
from manager_kinds.core_v1 import PodSpecDict

GROUP = "dask.example.com"

PodSpec = Annotated[PodSpecDict, preserve_unknown()]
Name = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z0-9-]+$")]
Workers = Annotated[Int32, Field(ge=0, le=1000)]


class WorkerSpec(ApiModel):
    """The desired number of workers, and the spec of their pods."""

    replicas: Workers = 3
    spec: PodSpec


class ClusterSpec(ApiModel):
    """The scheduler's pod, and the first group of workers with its initial size."""

    scheduler: PodSpec
    worker: WorkerSpec
    idle_timeout: Annotated[Int32, Field(ge=0)] = 0
    """Seconds without work after which the cluster is deleted; 0 for never."""


@crd(columns=(Column.reason_of(READY),))
class DaskCluster(Resource, group=GROUP, version="v1", plural="daskclusters"):
    """A Dask scheduler with workers."""

    spec: ClusterSpec
    status: Status = Field(default_factory=Status)


class WorkerGroupSpec(ApiModel):
    """The name of the cluster, and the group's desired workers."""

    cluster: Name
    worker: WorkerSpec


class WorkerGroupStatus(Status, conditions={READY: "each wanted worker has a Deployment"}):
    """The workers of a group as last observed."""

    replicas: Int32 = 0


@crd(scale=Scale(".spec.worker.replicas", ".status.replicas"))
class DaskWorkerGroup(Resource, group=GROUP, version="v1", plural="daskworkergroups"):
    """Workers of one type; `kubectl scale` sets their number."""

    spec: WorkerGroupSpec
    status: WorkerGroupStatus = Field(default_factory=WorkerGroupStatus)


class JobSpec(ApiModel):
    """A program's pod, and the cluster that exists while the program runs."""

    cluster: ClusterSpec
    job: PodSpec


class JobStatus(Status, conditions={READY: "the program has ended well"}):
    """The state of a DaskJob's program."""

    phase: Literal["ClusterCreated", "Running", "Successful", "Failed"] | None = None


@crd(columns=(Column("Phase", "string", ".status.phase", "The state of the program"),))
class DaskJob(Resource, group=GROUP, version="v1", plural="daskjobs"):
    """A program that runs on a separate cluster."""

    spec: JobSpec
    status: JobStatus = Field(default_factory=JobStatus)


class AutoscalerSpec(ApiModel):
    """The cluster whose first group is scaled, and the group's least and greatest size."""

    cluster: Name
    minimum: Workers = 1
    maximum: Workers = 10


class AutoscalerStatus(Status, conditions={READY: "the scheduler says how many workers it wants"}):
    """The time of the last change of the group's size."""

    scaled_at: datetime | None = None


@crd()
class DaskAutoscaler(Resource, group=GROUP, version="v1", plural="daskautoscalers"):
    """An autoscaler that gives a cluster as many workers as its scheduler wants."""

    spec: AutoscalerSpec
    status: AutoscalerStatus = Field(default_factory=AutoscalerStatus)
