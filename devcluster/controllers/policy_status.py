"""ValidatingAdmissionPolicies: their status says that the present generation was looked at."""

from __future__ import annotations

from devcluster.controllers.controller import Controller, Name, Routes

__all__ = ["PolicyStatusController"]

POLICIES = ("admissionregistration.k8s.io", "validatingadmissionpolicies")


class PolicyStatusController(Controller):
    """The controller of the status of policies; it finds no wrong types."""

    name = "validatingadmissionpolicy-status-controller"

    def routes(self) -> Routes:
        """Return the handler of changes of policies."""
        return {POLICIES: self.enqueue}

    async def sync(self, key: Name) -> None:
        """Reconcile one policy."""
        policy = self.view.get(POLICIES, *key)
        if policy is None:
            return
        status = policy.get("status") or {}
        generation = policy["metadata"]["generation"]
        if status.get("observedGeneration") != generation:
            changed = {**policy, "status": {**status, "observedGeneration": generation, "typeChecking": {}}}
            resource = "validatingadmissionpolicies.admissionregistration.k8s.io"
            await self.client.update(resource, "", changed, subresource="status")
