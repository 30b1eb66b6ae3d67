"""Creation of namespaces, complete with the objects that controllers add to every namespace."""

from __future__ import annotations

from tests.support.control_plane import ControlPlane, Feature
from tests.support.eventually import eventually

# No pod is admitted without the first; whoever lists or watches ConfigMaps sees the second.
GIVEN = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")


def create_namespace(plane: ControlPlane, name: str) -> None:
    """Create it, and wait until it has all that controllers give to a new namespace."""
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    if plane.supports(Feature.WORKLOADS):
        for given in GIVEN:
            path = f"/api/v1/namespaces/{name}/{given}"
            # When whoever gives it has ended, that is what is wrong.
            eventually(lambda path=path: (plane.check(), plane.api.get(path)), every=0.02)
