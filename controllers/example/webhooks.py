"""Wordpress: what is said of a password that everyone can read.

The rest of what can be refused is in the definition, where it holds without a webhook too: a volume that
shrinks, a name that is too long for the children, a password that changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from apis.example.v1.wordpress import Wordpress
from manager.webhook import Admission, AdmissionRequest

__all__ = ["WEBHOOKS", "warn_of_a_password_in_the_open"]

_IN_THE_OPEN = (
    "spec.sqlrootpassword: whoever may read this object can read it, and it cannot be changed later;"
    " better keep it in a Secret, and name that in spec.sqlRootPasswordSecretRef"
)

# It warns and refuses nothing: nobody has to wait for a manager that is down.
admission = Admission(Wordpress, failure_policy="Ignore", timeout_seconds=5)


@admission.validate_create
async def warn_of_a_password_in_the_open(site: Wordpress, _: AdmissionRequest) -> Iterable[str]:
    """Warn of it once, when something can still be done: it cannot be changed later."""
    return (_IN_THE_OPEN,) if site.spec.sqlrootpassword else ()


WEBHOOKS = (admission,)
