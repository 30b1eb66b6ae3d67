"""The kinds that come with the server, and the objects that a new cluster has.

resources           every kind, with its rules
initial_objects     what is there before anybody has created anything
read_recorded       the facts of these, from a file that is read once
"""

from __future__ import annotations

from devcluster.builtin.bootstrap import initial_objects, read_recorded
from devcluster.builtin.catalogue import resources

__all__ = ["initial_objects", "read_recorded", "resources"]
