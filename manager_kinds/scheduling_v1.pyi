# Made by scripts/generate-kinds; do not edit.
from manager.api import Resource

__all__ = ["PriorityClass"]

class PriorityClass(
    Resource, group="scheduling.k8s.io", version="v1", plural="priorityclasses", namespaced=False
):
    """PriorityClass of scheduling.k8s.io/v1, cluster-scoped."""

    value: int | None = None
    global_default: bool | None = None
    description: str | None = None
    preemption_policy: str | None = None
