"""The HTTPS server: it turns requests into `ApiRequest`, and `ApiResponse` into responses."""

from __future__ import annotations
