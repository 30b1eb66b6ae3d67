"""Defaults and validation of CustomResourceDefinitions, and the resources that they define."""
