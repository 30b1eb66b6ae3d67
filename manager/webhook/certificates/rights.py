"""What a manager that looks after its own certificates may do, as roles are generated from it.

Every rule but one names its objects: of all Secrets in its namespace the manager reads one, and of all
webhook configurations it changes two. `create` cannot be limited to a name, so it has a rule of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from manager.rbac import RbacRule
from manager.webhook.names import MUTATING, SECRET, VALIDATING

__all__ = ["injection_rights", "secret_rights"]


def secret_rights(prefix: str) -> tuple[RbacRule, ...]:
    """The rules for the namespace that holds the Secret: those of a Role, not of a ClusterRole.

    `prefix` is what the Secret's name begins with.
    """
    return (
        RbacRule(("",), ("secrets",), ("get", "update"), (f"{prefix}{SECRET}",)),
        RbacRule(("",), ("secrets",), ("create",)),
    )


def injection_rights(prefix: str, definitions: Iterable[str]) -> tuple[RbacRule, ...]:
    """The rules for the cluster: reading where webhooks are called, and putting the CA bundle there.

    `prefix` is what the names of the configurations begin with, `definitions` are the names of the CRDs whose
    objects a webhook converts, such as "pets.petstore.example.com".
    """
    api = "admissionregistration.k8s.io"
    rules = [
        RbacRule((api,), ("mutatingwebhookconfigurations",), ("get", "patch"), (f"{prefix}{MUTATING}",)),
        RbacRule((api,), ("validatingwebhookconfigurations",), ("get", "patch"), (f"{prefix}{VALIDATING}",)),
    ]
    if names := tuple(sorted(definitions)):
        kinds = ("customresourcedefinitions",)
        rules.append(RbacRule(("apiextensions.k8s.io",), kinds, ("get", "patch"), names))
    return tuple(rules)
