"""MySrv: looks at what is announced, and says that it has seen it."""

from __future__ import annotations

from apis.myapp.v1alpha1.mysrv import MySrv
from controllers.conditions import condition
from manager import clock
from manager.api import set_condition
from manager.client import Client
from manager.controller import ControllerBuilder, ControllerOptions, Request, Result, generation_changed
from manager.events import EventRecorder
from manager.manager import Manager
from manager.rbac import rbac

__all__ = ["KINDS", "RECONCILERS", "MySrvReconciler", "setup"]


@rbac(groups="myapp.idcos.com", resources="mysrvs", verbs="list;watch")
@rbac(groups="myapp.idcos.com", resources="mysrvs/status", verbs="patch")
@rbac(groups="", resources="events", verbs="create;patch")
class MySrvReconciler:
    """Takes up the spec of each MySrv; creates nothing."""

    def __init__(self, client: Client, events: EventRecorder) -> None:
        self.client = client
        self.events = events

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one MySrv's status up to date."""
        mysrv = await self.client.find(MySrv, request)
        if mysrv is None or mysrv.metadata.deletion_timestamp is not None:
            return None
        status, generation = mysrv.status, mysrv.metadata.generation
        is_news = status.observed_generation != generation
        what = f"{mysrv.spec.name}, port {mysrv.spec.port}"
        status.status = "Available"
        status.observed_generation = generation
        ready = condition(mysrv, "Ready", "True", "SpecTakenUp", f"The spec is taken up: {what}")
        set_condition(status.conditions, ready, now=clock.now())
        await self.client.status.report(mysrv)
        if is_news:
            self.events.event(mysrv, "Normal", "SpecTakenUp", f"Took up the spec: {what}")
        return None


def setup(manager: Manager, options: ControllerOptions) -> None:
    """Wire the controller up."""
    (
        ControllerBuilder(manager, MySrv)
        .predicates(generation_changed)
        .options(options)
        .complete(MySrvReconciler(manager.client.named("mysrv"), manager.events))
    )


KINDS = (MySrv,)
RECONCILERS = (MySrvReconciler,)
