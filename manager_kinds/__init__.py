"""Kubernetes' own kinds and the types that they are made of: a module for each group and version.

    from manager_kinds.apps_v1 import Deployment
    from manager_kinds.core_v1 import ConfigMap, ContainerDict, EnvVar

A kind holds its spec and status as JSON, which type checkers know in every field. Each type also has a model
(`EnvVar`) for kinds of your own, and a `TypedDict` (`EnvVarDict`) for its JSON.
"""
