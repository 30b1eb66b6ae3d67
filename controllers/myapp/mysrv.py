"""MySrv operator: it acknowledges each announced service in the status of its MySrv."""

from __future__ import annotations

from apis.myapp.v1alpha1.mysrv import MySrv
from manager import Context, Operator, any_of, generation_changed, status_changed
from manager.api import READY


class MySrvOperator(Operator[MySrv]):
    """The operator that acknowledges the spec of each MySrv; it creates no objects."""

    on = any_of(generation_changed, status_changed)

    async def reconcile(self, mysrv: MySrv, ctx: Context) -> None:
        """Acknowledge the spec in the status."""
        what = f"{mysrv.spec.name}, port {mysrv.spec.port}"
        mysrv.status.status = "Available"
        ctx.condition(READY, True, "SpecTakenUp", f"The spec is taken up: {what}")
        if not ctx.is_observed():
            ctx.event("SpecTakenUp", f"Took up the spec: {what}", once_written=True)
