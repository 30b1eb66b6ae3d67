"""Kubernetes' own kinds and the types of their fields, in one module per group and version.

    from manager_kinds.apps_v1 import Deployment
    from manager_kinds.core_v1 import ConfigMap, ContainerDict, EnvVar

A kind stores its spec and status as JSON, whose fields type checkers know. Each type also has a model
(`EnvVar`) for your own kinds, and a `TypedDict` (`EnvVarDict`) for its JSON.
"""
