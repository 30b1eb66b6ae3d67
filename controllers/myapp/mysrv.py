"""MySrv: looks at what is announced, and says that it has seen it."""

from __future__ import annotations

from apis.myapp.v1alpha1.mysrv import MySrv
from manager import Context, Operator, any_of, generation_changed, status_changed


class MySrvOperator(Operator[MySrv]):
    """Takes up the spec of each MySrv; creates nothing."""

    on = any_of(generation_changed, status_changed)

    async def reconcile(self, mysrv: MySrv, ctx: Context) -> None:
        """Say that the spec is taken up."""
        what = f"{mysrv.spec.name}, port {mysrv.spec.port}"
        mysrv.status.status = "Available"
        ctx.condition("Ready", True, "SpecTakenUp", f"The spec is taken up: {what}")
        if not ctx.is_observed():
            ctx.event("SpecTakenUp", f"Took up the spec: {what}", once_written=True)
