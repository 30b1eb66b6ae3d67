"""Authentication and authorization of requests."""

from __future__ import annotations
