"""How what certificates are kept in, and written to, is called; a prefix comes before each."""

from __future__ import annotations

from manager.program import Program

__all__ = ["MUTATING", "SECRET", "SERVICE", "VALIDATING", "field_manager_of"]

SECRET = "webhook-server-cert"  # noqa: S105 - its name
"""The Secret with the certificates, as kubebuilder names the one that cert-manager fills."""

SERVICE = "webhook-service"
"""The Service under which the API server reaches the webhooks."""

MUTATING = "mutating-webhook-configuration"
VALIDATING = "validating-webhook-configuration"


def field_manager_of(program: Program) -> str:
    """Under which name `program` books what it writes for its webhooks."""
    return f"{program.name}-webhook"
