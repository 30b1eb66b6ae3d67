"""Controllers of ResourceQuotas, PodDisruptionBudgets and ValidatingAdmissionPolicies."""

from __future__ import annotations

from collections.abc import Sequence

from devcluster.builtin.quotas import QUOTAS, QuotaLedger, amounts_text
from devcluster.controllers.client import PODS, Object, controller_of, is_going, key_of
from devcluster.controllers.controller import ANYTHING, Controller, Environment, Name, Routes
from devcluster.controllers.pod_owners import scaled
from devcluster.controllers.pod_status import has_ended, is_ready
from devcluster.kinds import conditions
from devcluster.storage import Change
from devcluster.storage.selectors import LabelSelector

POLICIES = ("admissionregistration.k8s.io", "validatingadmissionpolicies")


class PolicyStatusController(Controller):
    """Controller of the status of ValidatingAdmissionPolicies, which reports every policy as checked."""

    name = "validatingadmissionpolicy-status-controller"

    def routes(self) -> Routes:
        return {POLICIES: self.enqueue}

    async def sync(self, key: Name) -> None:
        policy = self.view.get(POLICIES, *key)
        if policy is None:
            return
        status = policy.get("status") or {}
        generation = policy["metadata"]["generation"]
        if status.get("observedGeneration") != generation:
            status = {**status, "observedGeneration": generation, "typeChecking": {}}
            await self.write_status(POLICIES, policy, status)


class QuotaController(Controller):
    """ResourceQuota controller, which writes the used amounts of the ledger to the status."""

    name = "resourcequota-controller"
    batch_period = 0.005

    def __init__(self, environment: Environment, ledger: QuotaLedger) -> None:
        super().__init__(environment)
        self._ledger = ledger

    def routes(self) -> Routes:
        return {ANYTHING: self._on_change}

    async def sync(self, key: Name) -> None:
        quota = self.view.get(QUOTAS, *key)
        if quota is None:
            return
        hard = quota["spec"].get("hard") or {}
        status = {"hard": hard, "used": amounts_text(self._ledger.used(quota))}
        if hard:
            await self.write_status(QUOTAS, quota, status)

    def _on_change(self, change: Change) -> None:
        for quota in self._ledger.quotas(change.key.namespace):
            self.queue.add(key_of(quota))


BUDGETS = ("policy", "poddisruptionbudgets")
SCALED = {
    "ReplicaSet": ("apps", "replicasets"),
    "StatefulSet": ("apps", "statefulsets"),
    "Deployment": ("apps", "deployments"),
}


class DisruptionController(Controller):
    """The disruption controller, which updates the status of PodDisruptionBudgets."""

    name = "controllermanager"
    batch_period = 0.005

    def routes(self) -> Routes:
        return {BUDGETS: self.enqueue, PODS: self._on_pod}

    async def sync(self, key: Name) -> None:
        budget = self.view.get(BUDGETS, *key)
        if budget is None:
            return
        selected = self.view.selected(PODS, key[0], budget["spec"].get("selector"))
        pods = [pod for pod in (stored.decode() for stored in selected) if not has_ended(pod)]
        if not pods:
            self.normal(budget, "NoPods", "No matching pods found")
        former = budget.get("status") or {}
        alive = {pod["metadata"]["name"] for pod in pods if not is_going(pod)}
        # Pods with a granted eviction but without a deletion time.
        disrupted = {name: at for name, at in (former.get("disruptedPods") or {}).items() if name in alive}
        expected, desired = self._expectation(budget, pods)
        healthy = sum(
            is_ready(pod) and not is_going(pod) and pod["metadata"]["name"] not in disrupted for pod in pods
        )
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        status: Object = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": self._conditions(budget, allowed=allowed > 0),
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        await self.write_status(BUDGETS, budget, status)

    def _expectation(self, budget: Object, pods: Sequence[Object]) -> tuple[int, int]:
        """Return the expected number of pods, and the number of pods that must be healthy."""
        spec = budget["spec"]
        if "maxUnavailable" in spec:
            expected = self._scale(pods)
            return expected, max(expected - scaled(spec["maxUnavailable"], expected, up=True), 0)
        least = spec.get("minAvailable", 1)
        expected = len(pods) if isinstance(least, int) else self._scale(pods)
        return expected, scaled(least, expected, up=True)

    def _scale(self, pods: Sequence[Object]) -> int:
        """Return the sum of the desired replicas of the pods' controllers."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            manager = self._scaled(owner, pod["metadata"]["namespace"]) if owner is not None else None
            if manager is not None:
                scales[manager["metadata"]["uid"]] = manager["spec"].get("replicas", 1)
        return sum(scales.values())

    def _scaled(self, owner: Object, namespace: str) -> Object | None:
        resource = SCALED.get(owner["kind"])
        manager = self.view.get(resource, namespace, owner["name"]) if resource is not None else None
        if manager is None or manager["metadata"]["uid"] != owner["uid"]:
            return None
        above = controller_of(manager)
        return manager if above is None else self._scaled(above, namespace) or manager

    def _conditions(self, budget: Object, *, allowed: bool) -> list[Object]:
        known = (budget.get("status") or {}).get("conditions") or ()
        former = conditions.find(known, "DisruptionAllowed")
        value = "True" if allowed else "False"
        since = self.clock.timestamp()
        if former is not None and former["status"] == value:
            since = former["lastTransitionTime"]
        condition = {
            "type": "DisruptionAllowed",
            "status": value,
            "observedGeneration": budget["metadata"].get("generation", 1),
            "lastTransitionTime": since,
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
        }
        return conditions.replaced(known, condition)

    def _on_pod(self, change: Change) -> None:
        for stored in self.view.select(BUDGETS, change.key.namespace):
            selector = stored.decode()["spec"].get("selector")
            if selector is None:
                continue
            matcher = LabelSelector.of(selector)
            if any(pod is not None and matcher.matches(pod.labels) for pod in (change.old, change.new)):
                self.queue.add((stored.key.namespace, stored.key.name))
