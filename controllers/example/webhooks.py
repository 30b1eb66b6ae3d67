"""Wordpress: what is said of a password that everyone can read, and of a site that strangers reach first.

The rest of what can be refused is in the definition, where it holds without a webhook too: a volume that
shrinks, a name that is too long for the children, a password that changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from apis.example.v1.wordpress import Wordpress
from manager.webhook import Admission, AdmissionRequest

__all__ = ["WEBHOOKS", "warn_of_what_is_open"]

_IN_THE_OPEN = (
    "spec.sqlrootpassword: whoever may read this object can read it, and it cannot be changed later;"
    " better keep it in a Secret, and name that in spec.sqlRootPasswordSecretRef"
)

_FIRST_VISITOR = (
    "spec.serviceType: {type} lets whoever comes first install WordPress, and be its administrator;"
    " install it at once, or create it with ClusterIP, install it by kubectl port-forward, and open it then"
)

# It warns and refuses nothing: nobody has to wait for a manager that is down.
admission = Admission(Wordpress, failure_policy="Ignore", timeout_seconds=5)


@admission.validate_create
async def warn_of_what_is_open(site: Wordpress, _: AdmissionRequest) -> Iterable[str]:
    """Warn once, when something can still be done: the password stays, and visitors may come from now on."""
    warnings = [_IN_THE_OPEN] if site.spec.sqlrootpassword else []
    if site.spec.service_type != "ClusterIP":
        warnings.append(_FIRST_VISITOR.format(type=site.spec.service_type))
    return warnings


WEBHOOKS = (admission,)
