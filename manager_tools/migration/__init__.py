"""Storage migration: every object of a kind is stored in the version that its definition says.

An API server stores what is written in the storage version of that day, and leaves what is there already
as it is. `status.storedVersions` of the CustomResourceDefinition says which versions may be among the
stored objects; none of these can be dropped from the definition. A migration has the server write every
object anew and then trims that list.
"""
