"""How requests come in: HTTPS on one side, `ApiRequest` and `ApiResponse` on the other."""

from __future__ import annotations
