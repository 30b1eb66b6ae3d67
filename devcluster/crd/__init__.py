"""CustomResourceDefinitions: their validation, and the kinds that they define."""
