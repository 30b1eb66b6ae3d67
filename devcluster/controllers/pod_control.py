"""Creation and deletion of pods by controllers, with an Event for each."""

from __future__ import annotations

from devcluster.controllers.client import Object
from devcluster.controllers.controller import Controller
from devcluster.errors import StatusError

__all__ = ["PodController"]


class PodController(Controller):
    """A controller whose objects own pods."""

    async def create_pod(self, owner: Object, pod: Object) -> Object:
        """Create it and say so, or why not."""
        try:
            created = await self.client.create("pods", owner["metadata"]["namespace"], pod)
        except StatusError as error:
            message = f"Error creating: {error.message}"
            self.events.warning(owner, "FailedCreate", message, component=self.name)
            raise
        message = f"Created pod: {created['metadata']['name']}"
        self.events.normal(owner, "SuccessfulCreate", message, component=self.name)
        return created

    async def delete_pod(self, owner: Object, pod: Object) -> None:
        """Delete it and say so."""
        metadata = pod["metadata"]
        await self.client.delete("pods", metadata["namespace"], metadata["name"], uid=metadata["uid"])
        message = f"Deleted pod: {metadata['name']}"
        self.events.normal(owner, "SuccessfulDelete", message, component=self.name)
