"""GET requests of tests, over a connection of their own each."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request


def get(
    url: str,
    *,
    accept: str = "*/*",
    token: str | None = None,
    context: ssl.SSLContext | None = None,
    timeout: float = 20.0,
) -> tuple[int, str]:
    """Return the status and the body; `context` is for https. Raises OSError when no server answers."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=timeout, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()
