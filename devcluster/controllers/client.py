"""The interface of the controllers to the API server in the same process: its `LocalClient`."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Client", "Object"]

Object = dict[str, Any]


class Client(Protocol):
    """The controllers' writes, which take the same steps as external requests; reads come from the `View`.

    Resources are named `pods` or `deployments.apps`. Every method raises StatusError.
    """

    async def create(
        self, resource: str, namespace: str, obj: Object, *, name: str = "", subresource: str = ""
    ) -> Object:
        """Create an object, or with `name` and `subresource` post to one, as a binding is."""
        ...

    async def update(self, resource: str, namespace: str, obj: Object, *, subresource: str = "") -> Object:
        """Replace an object that is still at the resourceVersion it says."""
        ...

    async def patch(
        self, resource: str, namespace: str, name: str, patch: Object, *, subresource: str = ""
    ) -> Object:
        """Apply a merge patch."""
        ...

    async def delete(
        self,
        resource: str,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        propagation: str = "Background",
        grace: int | None = None,
    ) -> None:
        """Delete the object, if it has that uid."""
        ...

    def find(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        """Return the object of that kind, or None."""
        ...

    async def scale(
        self, api_version: str, kind: str, namespace: str, name: str, *, replicas: int | None = None
    ) -> Object:
        """Return the Scale of an object of any kind, after setting its `replicas` if given."""
        ...
