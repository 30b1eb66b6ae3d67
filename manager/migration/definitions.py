"""Reading definitions, and the two things that are written to them: a position, and the stored versions."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
import orjson

from manager.kube.decoding import Decoder
from manager.kube.errors import Conflict
from manager.kube.transport import Transport
from manager.migration.definition import Definition, DefinitionChanged, Position, decode_definition
from manager.migration.patience import Patience
from manager.program import Program

__all__ = ["METADATA", "Definitions"]

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The answer's form that has an object's metadata alone."""

_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MERGE_PATCH = "application/merge-patch+json"


class Definitions:
    """The CustomResourceDefinitions of a cluster, as `program` migrates them.

    Attributes:
        position: the annotation of a definition in which it keeps how far it has come.
        field_manager: under which it writes.
    """

    def __init__(self, transport: Transport, patience: Patience, program: Program) -> None:
        self._transport = transport
        self._patience = patience
        self.position = f"{program.name}/storage-migration"
        self.field_manager = f"{program.name}-migrate-storage"

    async def get(self, name: str) -> Definition:
        """The definition as it is now; raises NotFound and the rest of KubeError."""
        path = _path(name)
        raw = await self._patience.insist(lambda: self._transport.request("GET", path))
        return decode_definition(raw, position=self.position)

    async def keep(self, definition: Definition, position: Position, *, patient: bool = True) -> None:
        """Write down how far a migration has come.

        Raises DefinitionChanged, also where the position has been written, when the definition has become
        another one meanwhile. Not `patient`, it is sent once, and with a short deadline.
        """
        annotations = {self.position: position.text(definition)}
        body = orjson.dumps({"metadata": {"uid": definition.uid, "annotations": annotations}})

        async def send() -> bytes:
            return await self._patch(_path(definition.name), body, deadline=None if patient else 5.0)

        try:
            answer = await self._patience.insist(send) if patient else await send()
        except Conflict as error:
            raise DefinitionChanged(str(error)) from error
        if _generation(answer) != definition.generation:
            raise DefinitionChanged

    async def trim(self, definition: Definition) -> bool:
        """Leave the storage version as the only stored one.

        `definition` is as it was when the migration began. Raises DefinitionChanged when it is another now,
        also in the very moment. Answers False when somebody else has trimmed it already.
        """

        async def send() -> bool:
            now = await self.get(definition.name)
            if (now.uid, now.generation) != (definition.uid, definition.generation):
                raise DefinitionChanged
            if now.uniform:
                return False
            # On the version just looked at: whoever changes the definition now goes first, and is seen.
            body = {
                "metadata": {"resourceVersion": now.resource_version},
                "status": {"storedVersions": [now.storage]},
            }
            await self._patch(f"{_path(now.name)}/status", orjson.dumps(body))
            return True

        return await self._patience.insist(send)

    async def clear(self, definition: Definition) -> None:
        """Remove the position; nothing is sent where there is none."""
        if (await self.get(definition.name)).position is None:
            return
        body = orjson.dumps({"metadata": {"uid": definition.uid, "annotations": {self.position: None}}})
        await self._patience.insist(lambda: self._patch(_path(definition.name), body))

    async def _patch(self, path: str, body: bytes, *, deadline: float | None = None) -> bytes:
        return await self._transport.request(
            "PATCH",
            path,
            query={"fieldManager": self.field_manager},
            body=body,
            content_type=_MERGE_PATCH,
            accept=METADATA,
            deadline=deadline,
        )


class _Metadata(msgspec.Struct):
    generation: int


class _Patched(msgspec.Struct):
    metadata: _Metadata


_decode = Decoder(_Patched, "the metadata of a definition")


def _path(name: str) -> str:
    return f"{_PATH}/{quote(name, safe='')}"


def _generation(answer: bytes) -> int:
    return _decode(answer).metadata.generation
