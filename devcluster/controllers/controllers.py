"""All controllers of a cluster, which start and stop together."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from devcluster.api.local import LocalClient
from devcluster.builtin.quotas import QuotaLedger
from devcluster.clock import Clock
from devcluster.controllers.autoscaler import AutoscalerController
from devcluster.controllers.client import EventRecorder
from devcluster.controllers.controller import ANYTHING, Controller, Environment, Handler, View
from devcluster.controllers.cron_job import CronJobController
from devcluster.controllers.daemon_set import DaemonSetController
from devcluster.controllers.deployment import DeploymentController
from devcluster.controllers.endpoints import (
    EndpointsController,
    EndpointSliceController,
    EndpointSliceMirroringController,
)
from devcluster.controllers.garbage import GarbageCollector, NamespaceController
from devcluster.controllers.images import Image
from devcluster.controllers.job import JobController
from devcluster.controllers.kubelet import Kubelet
from devcluster.controllers.nodes import NodeController, TaintEvictionController
from devcluster.controllers.policies import DisruptionController, PolicyStatusController, QuotaController
from devcluster.controllers.replica_set import ReplicaSetController
from devcluster.controllers.scheduler import Scheduler
from devcluster.controllers.service_accounts import ServiceAccountController
from devcluster.controllers.stateful_set import StatefulSetController
from devcluster.controllers.volumes import VolumeController
from devcluster.storage import Change, Store

log = logging.getLogger("devcluster.controllers")


class Controllers:
    """All controllers, used as `async with Controllers(client, store, clock, rng):`."""

    def __init__(
        self,
        client: LocalClient,
        store: Store,
        clock: Clock,
        rng: random.Random,
        *,
        pod_ready_delay: float = 1.0,
        pod_stop_delay: float = 0.0,
        images: Mapping[str, Image] | None = None,
        ca_pem: str = "",
        ledger: QuotaLedger | None = None,
    ) -> None:
        """Set up the controllers; both delays are in seconds: until a pod is ready, and until it has stopped.

        `images` adds to `images.IMAGES`. `ca_pem` is the content of `ca.crt` beside a pod's token. `ledger`
        counts the usage of quotas; it can be shared with the admission plugin.
        """
        self._store = store
        self._view = View(store)
        self._events = EventRecorder(client, clock)
        environment = Environment(client, self._view, clock, rng, self._events)
        kubelet = Kubelet(environment, ready_delay=pod_ready_delay, stop_delay=pod_stop_delay, images=images)
        self.runtime = kubelet.runtime
        self._controllers: list[Controller] = [
            NodeController(environment),
            Scheduler(environment),
            kubelet,
            DeploymentController(environment),
            ReplicaSetController(environment),
            StatefulSetController(environment),
            DaemonSetController(environment),
            JobController(environment),
            CronJobController(environment),
            GarbageCollector(environment),
            NamespaceController(environment),
            ServiceAccountController(environment, ca_pem=ca_pem),
            EndpointsController(environment),
            EndpointSliceController(environment),
            EndpointSliceMirroringController(environment),
            VolumeController(environment),
            DisruptionController(environment),
            AutoscalerController(environment),
            QuotaController(environment, ledger or QuotaLedger(store)),
            PolicyStatusController(environment),
            TaintEvictionController(environment),
        ]
        self._routes: defaultdict[tuple[str, str], list[Handler]] = defaultdict(list)
        for controller in self._controllers:
            for resource, handler in controller.routes().items():
                self._routes[resource].append(handler)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="controllers")
        self._task.add_done_callback(_log_failure)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Pass all existing objects to the controllers, then all changes; no change is lost in between."""
        for stored in list(self._view.load()):
            self._dispatch(Change(stored.version, stored.key, None, stored))
        unsubscribe = self._store.subscribe(self._follow)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._events.run(), name="events")
                for controller in self._controllers:
                    await controller.start()
                    group.create_task(controller.run(), name=controller.name)
        finally:
            unsubscribe()

    def _follow(self, change: Change) -> None:
        self._view.apply(change)
        self._dispatch(change)

    def _dispatch(self, change: Change) -> None:
        for handler in self._routes[ANYTHING]:
            handler(change)
        for handler in self._routes.get(change.key[:2], ()):
            handler(change)


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log the exception of a controller that has stopped all controllers; nothing else reports it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("all controllers have stopped because of a bug in devcluster", exc_info=error)
