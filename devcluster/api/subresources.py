"""The subresources beside status: scale, binding, eviction, log, token, finalize."""

from __future__ import annotations

from devcluster.api.call import Call
from devcluster.api.deleting import Deleter
from devcluster.api.exchange import ApiResponse
from devcluster.api.ports import Logs, Tokens
from devcluster.api.reading import Reader
from devcluster.api.routing import Target
from devcluster.api.writing import Writer
from devcluster.errors import StatusError
from devcluster.kinds.registry import Registry

__all__ = ["Subresources"]


class Subresources:
    """Answers requests to them."""

    def __init__(self, writer: Writer, deleter: Deleter, reader: Reader, registry: Registry) -> None:
        self._writer = writer
        self._deleter = deleter
        self._reader = reader
        self._registry = registry
        self.logs: Logs | None = None
        self.tokens: Tokens | None = None

    async def serve(self, call: Call, target: Target) -> ApiResponse:
        """The answer.

        Raises:
            StatusError: it is refused.
        """
        raise StatusError(501, "", f"{target.subresource} of {call.resource.name} is not there")
