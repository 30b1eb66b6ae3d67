"""Control plane in the same process, with gadgets whose CRD has changed its storage version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devcluster import DevCluster
from devcluster.patch.json_patch import merge_patch
from devcluster.storage import Key
from tests.support.cluster_wire import ClusterServer
from tests.support.scripted_wire import Reply, ScriptedWire, Sent, Step

GROUP, OLD, NEW = "test.example.com", "v1alpha1", "v1beta1"
NAME = f"gadgets.{GROUP}"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
POSITION = "operator-manager/storage-migration"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
GADGETS = f"/apis/{GROUP}/{NEW}/gadgets"
_STORED = Key("apiextensions.k8s.io", "customresourcedefinitions", "", NAME)


def gadget_path(name: str, *, version: str = NEW, subresource: str = "/status") -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/gadgets/{name}{subresource}"


def versions(*, storage: str = NEW, served: tuple[str, ...] = (OLD, NEW), status: bool = True) -> list[Any]:
    """Return `spec.versions` of the CRD; `status` says whether the versions have that subresource."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    more = {"schema": schema, **({"subresources": {"status": {}}} if status else {})}
    return [
        {"name": name, "served": name in served, "storage": name == storage, **more} for name in (OLD, NEW)
    ]


class GadgetServer(ClusterServer):
    """Server with the CRD and its gadgets; tests change both directly in the store, without validation."""

    def __init__(self, cluster: DevCluster, wire: ScriptedWire) -> None:
        super().__init__(cluster)
        self.wire = wire
        self.denied: set[tuple[str, str, str]] = set()
        """(verb, resource, subresource) that an access review denies."""
        self.before: Callable[[Sent], Step | None] = lambda sent: None
        """Called with each request first; its result is the response, unless it is None."""
        for method in ("GET", "PATCH", "POST"):
            wire.on(method, "/*", self._answer)

    async def define(self) -> None:
        """Create the CRD with the old storage version, and then change it to the new one."""
        names = {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"}
        spec = {"group": GROUP, "names": names, "scope": "Namespaced", "versions": versions(storage=OLD)}
        await self.api.create(DEFINITIONS, "", {"metadata": {"name": NAME}, "spec": spec})
        await self.api.patch(DEFINITIONS, "", NAME, {"spec": {"versions": versions()}})

    async def _answer(self, sent: Sent) -> Step:
        if (step := self.before(sent)) is not None:
            return step
        if sent.path == REVIEWS:
            asked = sent.json()["spec"]["resourceAttributes"]
            denied = (asked["verb"], asked["resource"], asked["subresource"]) in self.denied
            status = {"allowed": not denied}
            return Reply.json({"kind": "SelfSubjectAccessReview", "status": status}, status=201)
        return await self.answer(sent)

    def definition(self) -> dict[str, Any]:
        found = self.cluster.store.get(_STORED)
        assert found is not None
        return found.decode()

    def edit_definition(self, **patch: Any) -> None:
        """Apply a merge patch to the CRD; a patch with `spec` increases the generation."""
        before = self.definition()
        after = merge_patch(before, patch)
        if "spec" in patch:
            after["metadata"] = {**after["metadata"], "generation": before["metadata"]["generation"] + 1}
        self.cluster.store.update(_STORED, after)

    @property
    def generation(self) -> int:
        return int(self.definition()["metadata"]["generation"])

    @property
    def storage(self) -> str:
        return next(each["name"] for each in self.definition()["spec"]["versions"] if each["storage"])

    @property
    def stored_versions(self) -> list[str]:
        return list(self.definition()["status"]["storedVersions"])

    @property
    def annotations(self) -> dict[str, str]:
        return dict(self.definition()["metadata"].get("annotations", {}))

    def store(self, name: str, version: str = OLD) -> None:
        """Store a gadget in this storage version, and replace a gadget of the same name."""
        store, key = self.cluster.store, Key(GROUP, "gadgets", "default", name)
        metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "generation": 1}
        gadget = {"apiVersion": f"{GROUP}/{version}", "kind": "Gadget", "metadata": metadata, "spec": {}}
        if store.get(key) is None:
            store.create(key, gadget)
        else:
            store.update(key, {**gadget, "spec": {"version": store.version}})

    def remove(self, name: str) -> None:
        """Delete the gadget if it exists."""
        key = Key(GROUP, "gadgets", "default", name)
        if self.cluster.store.get(key) is not None:
            self.cluster.store.delete(key)

    def fill(self, count: int) -> None:
        """Store `count` gadgets in the old storage version, named `g0000` and so on."""
        for number in range(count):
            self.store(f"g{number:04}")

    def names(self) -> list[str]:
        return [each.key.name for each in self.cluster.store.select(GROUP, "gadgets")]

    def in_version(self, version: str) -> int:
        stored = (each.decode() for each in self.cluster.store.select(GROUP, "gadgets"))
        return sum(each["apiVersion"] == f"{GROUP}/{version}" for each in stored)

    def patches(self) -> list[str]:
        """Return the names of the patched gadgets, in order."""
        return [each.path.split("/")[7] for each in self.wire.sent("PATCH", f"/apis/{GROUP}/*")]
