"""Admission plugins of devcluster, by their names in the real API server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

OWNER_REFERENCES: Final = "OwnerReferencesPermissionEnforcement"
"""A plugin that is off by default."""
_ALWAYS: Final = frozenset(
    {
        "DefaultStorageClass",
        "LimitRanger",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "NamespaceLifecycle",
        "PodSecurity",
        "Priority",
        "ResourceQuota",
        "ServiceAccount",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
    }
)
"""Plugins that are always on; a request to enable one is accepted."""


class UnknownPlugin(ValueError):
    """Error for the name of an admission plugin that devcluster does not have."""


def check_plugins(names: Iterable[str]) -> None:
    """Raise UnknownPlugin if one of `names` is not the name of a plugin of devcluster."""
    for name in names:
        if name != OWNER_REFERENCES and name not in _ALWAYS:
            raise UnknownPlugin(f'unknown admission plugin "{name}"; devcluster can add {OWNER_REFERENCES}')
