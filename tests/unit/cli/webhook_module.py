"""The webhooks of an operator, for tests of the command line."""

from __future__ import annotations

from apis.cache.v1.memcached import Memcached
from manager.webhook import Admission, AdmissionRequest, JsonObject

admission = Admission(Memcached)


@admission.default
async def default(memcached: JsonObject, request: AdmissionRequest) -> None:
    """Change nothing."""


WEBHOOKS = (admission,)
