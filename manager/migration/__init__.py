"""Storage migration: every object of a kind is stored in the version that its definition says.

An API server stores what is written in the storage version of that day, and leaves what is there already
as it is. `status.storedVersions` of the CustomResourceDefinition says which versions may be among the
stored objects; none of these can be dropped from the definition. A migration has the server write every
object anew and then trims that list.
"""

from __future__ import annotations

from manager.migration.definitions import Definitions, MigrationFailed, StoredDefinition
from manager.migration.migration import Migration
from manager.migration.patience import Patience
from manager.migration.permission import migration_rights
from manager.migration.report import MigrationOptions, Outcome, Report, Screen, Tally

__all__ = [
    "Definitions",
    "Migration",
    "MigrationFailed",
    "MigrationOptions",
    "Outcome",
    "Patience",
    "Report",
    "Screen",
    "StoredDefinition",
    "Tally",
    "migration_rights",
]
