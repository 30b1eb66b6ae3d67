"""Having the server write one object anew, as it is."""

from __future__ import annotations

import enum
from collections.abc import Callable

import msgspec
import orjson

from manager.kube.decoding import Decoder
from manager.kube.errors import (
    ApiError,
    Conflict,
    NotFound,
    ServerError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from manager.kube.transport import Transport
from manager.migration.definitions import METADATA, Refused, StoredDefinition
from manager.migration.listing import Found
from manager.migration.patience import Patience

# What is about the server or about us, and would be no different for the next object.
_NOT_ABOUT_THE_OBJECT = TooManyRequests, ServiceUnavailable, ServerTimeout, Unauthorized


class Rewritten(enum.Enum):
    """What became of an object."""

    YES = enum.auto()
    """It was written, by the server for us or by somebody else."""
    NO_NEED = enum.auto()
    """It was stored in the right version."""
    GONE = enum.auto()
    """It has been deleted meanwhile."""


class Rewriter:
    """Applies, on the server's side, a configuration that says nothing of an object.

    The server reads the object, patches it, and compares what it would store with the stored bytes. These
    differ where they are of another version, so that it writes; else it does not, and the object keeps its
    resourceVersion. It reads and writes in one step: whatever others write meanwhile is kept. No field
    changes its manager, and neither the generation nor any content changes; who applies nothing owns nothing.

    It is not a merge patch, though that would change nothing either: where a server cannot convert an object
    to the version of one of its field managers, as while a webhook is down, it lets the patch pass and
    forgets who manages what. An apply it refuses.

    The patch goes to the status where that is apart. The server stores the whole object all the same, but
    asks no admission webhook of the object itself: for a user's changes, these may have rules that old
    objects do not keep, and each would cost a call. The schema is checked in either case.
    """

    def __init__(
        self,
        transport: Transport,
        patience: Patience,
        definition: StoredDefinition,
        *,
        field_manager: str,
        dry_run: bool,
    ) -> None:
        self._transport = transport
        self._patience = patience
        self._path: Callable[..., str] = definition.path
        self._type = {"apiVersion": f"{definition.group}/{definition.version}", "kind": definition.kind}
        self._query = {"fieldManager": field_manager, **({"dryRun": "All"} if dry_run else {})}

    async def rewrite(self, found: Found) -> Rewritten:
        """Have it written; raises Refused when this object cannot be, and KubeError when none can."""
        path = self._path(found.key)
        # With a uid, nothing is made where the object has gone, and another one of its name is left alone.
        metadata = {"name": found.key.name, "uid": found.uid}
        body = orjson.dumps({**self._type, "metadata": metadata})

        async def send() -> bytes:
            return await self._transport.request(
                "PATCH",
                path,
                query=self._query,
                body=body,
                content_type="application/apply-patch+yaml",
                accept=METADATA,
            )

        try:
            answer = await self._patience.insist(send)
        except NotFound:
            return Rewritten.GONE
        except Conflict:
            # Again and again somebody else was faster, or has made another object of that name.
            return Rewritten.YES
        except _NOT_ABOUT_THE_OBJECT:
            raise
        except ApiError as error:
            text = " ".join(str(error).split())
            raise Refused(text, failing=isinstance(error, ServerError)) from error
        return Rewritten.NO_NEED if _version(answer) == found.version else Rewritten.YES


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Object(msgspec.Struct):
    metadata: _Metadata


_decode = Decoder(_Object, "the metadata of an object")


def _version(answer: bytes) -> str:
    return _decode(answer).metadata.resource_version
