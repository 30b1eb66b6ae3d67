"""Creation of namespaces, complete with the objects that controllers add to every namespace."""

from __future__ import annotations

from tests.support.control_plane import ControlPlane, Feature
from tests.support.eventually import eventually

# Pod admission needs the first; the second is in every list of ConfigMaps.
GIVEN = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")


def create_namespace(plane: ControlPlane, name: str) -> None:
    """Create a namespace, and wait for the objects that controllers add to it."""
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    if plane.supports(Feature.WORKLOADS):
        for given in GIVEN:
            path = f"/api/v1/namespaces/{name}/{given}"
            # If the controllers have died, the failure says so.
            eventually(lambda path=path: (plane.check(), plane.api.get(path)), every=0.02)
