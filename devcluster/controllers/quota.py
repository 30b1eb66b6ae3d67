"""ResourceQuotas: their status says what the namespace's objects take."""

from __future__ import annotations

from devcluster.builtin.quotas import QUOTAS, QuotaLedger, amounts_text
from devcluster.controllers.controller import ANYTHING, Controller, Environment, Name, Routes
from devcluster.storage import Change

__all__ = ["QuotaController"]


class QuotaController(Controller):
    """The ResourceQuota controller."""

    name = "resourcequota-controller"
    batch_period = 0.005

    def __init__(self, environment: Environment, ledger: QuotaLedger) -> None:
        super().__init__(environment)
        self._ledger = ledger

    def routes(self) -> Routes:
        """Return the handler of changes of all resources, since a quota can count any."""
        return {ANYTHING: self._on_change}

    async def sync(self, key: Name) -> None:
        """Reconcile one quota."""
        quota = self.view.get(QUOTAS, *key)
        if quota is None:
            return
        hard = quota["spec"].get("hard") or {}
        status = {"hard": hard, "used": amounts_text(self._ledger.used(quota))}
        if hard and status != quota.get("status"):
            changed = {**quota, "status": status}
            await self.client.update("resourcequotas", key[0], changed, subresource="status")

    def _on_change(self, change: Change) -> None:
        for quota in self._ledger.quotas(change.key.namespace):
            self.queue.add((change.key.namespace, quota["metadata"]["name"]))
