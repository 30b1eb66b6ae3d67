"""The built-in kinds, and the objects of a new cluster.

resources           every kind, with its rules
initial_objects     the objects of a new cluster
read_recorded       the initial objects that were recorded on a real server, from a file
"""

from __future__ import annotations

from devcluster.builtin.bootstrap import initial_objects, read_recorded
from devcluster.builtin.catalogue import resources

__all__ = ["initial_objects", "read_recorded", "resources"]
