"""What can be set for the operators of this group."""

from __future__ import annotations

from manager.setting import Setting, parse_text

__all__ = ["MEMCACHED_IMAGE"]

MEMCACHED_IMAGE = Setting(
    "memcached-image",
    parse_text,
    default="memcached:1.6.39-alpine",
    placeholder="IMAGE",
    description="image of the servers of a Memcached whose spec names none",
)
