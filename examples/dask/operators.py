"""The operators of the four Dask kinds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, TypeVar

from examples.dask.kinds import GROUP, DaskAutoscaler, DaskCluster, DaskJob, DaskWorkerGroup, WorkerGroupSpec
from examples.dask.scheduler import DASHBOARD, SchedulerAway, SchedulerClient
from manager import AnyOperator, Blocked, Context, Lifespan, Operator, Result, every, rbac
from manager.api import READY, ObjectMeta, Resource
from manager.util import clock
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod, PodSpecDict, Service, ServicePortDict

T = TypeVar("T", bound=Resource)

COOLDOWN = timedelta(seconds=15)
"""The time after a change in which the autoscaler removes no workers."""


class _AsksScheduler(Operator[T]):
    """The base class of operators that send HTTP requests to Dask schedulers."""

    client_of_schedulers: ClassVar[Callable[[], SchedulerClient]] = SchedulerClient

    def setup(self) -> None:
        """Create the HTTP client, which is open while the manager runs."""
        self.schedulers = type(self).client_of_schedulers()
        self.manager.add(Lifespan(lambda: self.schedulers, name="the client of schedulers"))


class ClusterOperator(_AsksScheduler[DaskCluster]):
    """The operator that runs a scheduler, its Service, and the first group of workers."""

    owns = (Deployment, Service, DaskWorkerGroup)
    rights = (rbac(groups=GROUP, resources="daskclusters", verbs="delete"),)

    async def reconcile(self, cluster: DaskCluster, ctx: Context) -> Result | None:
        """Reconcile one cluster, or delete it if it has been idle for too long."""
        if await self.is_idle(cluster):
            await ctx.delete(cluster)
            return None
        name = f"{cluster.metadata.name}-scheduler"
        labels = {f"{GROUP}/component": name}
        scheduler = await ctx.apply(deployment(cluster, name, labels, cluster.spec.scheduler))
        ports: list[ServicePortDict] = [
            {"name": "comm", "port": 8786},
            {"name": "dashboard", "port": DASHBOARD},
        ]
        await ctx.apply(Service(metadata=named(cluster, name), spec={"selector": labels, "ports": ports}))
        workers = WorkerGroupSpec(cluster=cluster.metadata.name, worker=cluster.spec.worker)
        group = DaskWorkerGroup(metadata=named(cluster, f"{cluster.metadata.name}-default"), spec=workers)
        # Afterwards, only the autoscaler or `kubectl scale` changes the number.
        await ctx.apply(group, initial=(".spec.worker.replicas",))
        ready = scheduler.is_available
        ctx.condition(READY, ready, "SchedulerAvailable" if ready else "SchedulerStarts")
        return Result(requeue_after=10) if cluster.spec.idle_timeout else None

    async def is_idle(self, cluster: DaskCluster) -> bool:
        """Return whether the scheduler has had no work for longer than the cluster's idle time-out."""
        limit, address = cluster.spec.idle_timeout, address_of(cluster.metadata.name, cluster)
        try:
            since = await self.schedulers.idle_since(address) if limit else None
        except SchedulerAway:
            return False
        return since is not None and clock.now() - since > timedelta(seconds=limit)


class WorkerGroupOperator(_AsksScheduler[DaskWorkerGroup]):
    """The operator that runs a Deployment per worker; scaling down removes the highest-numbered workers."""

    owns = (Deployment,)
    reads = (DaskCluster,)

    async def reconcile(self, group: DaskWorkerGroup, ctx: Context) -> None:
        """Reconcile one group of workers."""
        wanted = [f"{group.metadata.name}-worker-{number}" for number in range(group.spec.worker.replicas)]
        there = await ctx.children(Deployment)
        leaving = [each for each in there if each.metadata.name not in wanted]
        # Without a cluster, no other worker can take over this worker's data.
        if leaving and await ctx.find(DaskCluster, group.spec.cluster) is not None:
            address = address_of(group.spec.cluster, group)
            await self.schedulers.retire(address, [each.metadata.name for each in leaving])
        for each in leaving:
            await ctx.delete(each)
        for name in wanted:
            await ctx.apply(deployment(group, name, {f"{GROUP}/component": name}, group.spec.worker.spec))
        group.status.replicas = len(wanted)
        ctx.condition(READY, True, "AsWanted", f"there are {len(wanted)} workers")


class JobOperator(Operator[DaskJob]):
    """The operator that runs a program once, on a cluster that it deletes afterwards."""

    owns = (DaskCluster, Pod)

    async def reconcile(self, job: DaskJob, ctx: Context) -> None:
        """Perform the next step of one job: create the cluster, create the pod, or delete the cluster."""
        name, status = job.metadata.name, job.status
        runner = next(iter(await ctx.children(Pod)), None)
        ended = {"Succeeded": "Successful", "Failed": "Failed"}
        phase = ended.get(runner.status.get("phase", "")) if runner is not None else None
        if phase is not None or status.phase in ended.values():
            status.phase = phase or status.phase  # type: ignore[assignment]
            await ctx.write_status()  # so that the program does not run again if the pod is deleted
            for cluster in await ctx.children(DaskCluster):
                await ctx.delete(cluster)
            ctx.condition(READY, status.phase == "Successful", status.phase or "")
            return
        cluster = await ctx.apply(DaskCluster(metadata=named(job, name), spec=job.spec.cluster))
        ready = any(each.type == "Ready" and each.status == "True" for each in cluster.status.conditions)
        status.phase = "ClusterCreated"
        if ready or runner is not None:
            spec: PodSpecDict = {"restartPolicy": "Never", **job.spec.job}
            runner = runner or await ctx.apply(Pod(metadata=named(job, f"{name}-runner"), spec=spec))
            status.phase = "Running"
        ctx.condition(READY, False, status.phase)


class AutoscalerOperator(_AsksScheduler[DaskAutoscaler]):
    """The operator that scales a cluster's first group to the size that the cluster's scheduler wants."""

    reads = (DaskWorkerGroup,)
    rights = (rbac(groups=GROUP, resources="daskworkergroups", verbs="patch"),)

    @every(5)
    async def scale(self, scaler: DaskAutoscaler, ctx: Context) -> None:
        """Scale up immediately; scale down only if the last change is older than `COOLDOWN`."""
        spec, status = scaler.spec, scaler.status
        group = await ctx.find(DaskWorkerGroup, f"{spec.cluster}-default")
        if group is None:
            raise Blocked("NoCluster", f"there is no DaskCluster {spec.cluster}", awaited=True)
        wanted = await self.schedulers.wanted_workers(address_of(spec.cluster, scaler))
        wanted, there = max(spec.minimum, min(wanted, spec.maximum)), group.spec.worker.replicas
        ctx.condition(READY, True, "Answered")
        if wanted < there and status.scaled_at is not None and clock.now() - status.scaled_at < COOLDOWN:
            return
        if wanted != there:
            group.spec.worker.replicas = wanted
            await ctx.client.patch(group)
            status.scaled_at = clock.now()
            ctx.event("Scaled", f"from {there} to {wanted} workers")


OPERATORS: tuple[AnyOperator, ...] = (ClusterOperator, WorkerGroupOperator, JobOperator, AutoscalerOperator)


def deployment(owner: Resource, name: str, labels: dict[str, str], pod: PodSpecDict) -> Deployment:
    """Return a Deployment with one pod."""
    return Deployment(
        metadata=named(owner, name, labels),
        spec={
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    )


def named(owner: Resource, name: str, labels: dict[str, str] | None = None) -> ObjectMeta:
    """Return the metadata of an owner's child with this name and these labels."""
    return ObjectMeta(name=name, namespace=owner.metadata.namespace, labels=labels or {})


def address_of(cluster: str, near: Resource) -> str:
    """Return the address of a cluster's scheduler, in the namespace of `near`."""
    return f"{cluster}-scheduler.{near.metadata.namespace}.svc:{DASHBOARD}"
