"""Who asks, and what they may do."""

from __future__ import annotations
