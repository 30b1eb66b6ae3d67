"""What has to hold of a Wordpress in a simulation, beyond what has to hold of everything."""

from __future__ import annotations

from manager.simulation import Outside

__all__ = ["WordpressOutside"]


class WordpressOutside(Outside):
    """A site's data outlives it, if it is to, and the password to the data does."""

    kept = frozenset({"persistentvolumeclaims", "secrets"})
