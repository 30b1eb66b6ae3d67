"""Storage migration: it stores every object of a kind in the storage version of its CRD.

An API server writes objects in the current storage version, and leaves older objects in the version of their
last write. `status.storedVersions` of the CustomResourceDefinition (CRD) lists the versions that stored
objects may have; none of these versions can be removed from the CRD. A migration makes the API server write
every object again, and then trims that list.
"""
