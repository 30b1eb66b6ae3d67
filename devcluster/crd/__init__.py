"""Strategy of CustomResourceDefinitions, and the resources that they define."""
