"""Conflicts of an apply over fields of other managers, and their error."""

from __future__ import annotations

from devcluster.errors import StatusError
from devcluster.patch.fields import Fields, difference, paths
from devcluster.patch.go_format import quoted
from devcluster.patch.managed_fields import Identity

__all__ = ["Conflicts"]


class Conflicts(Exception):
    """An apply would change fields of other managers."""

    def __init__(self, fields: dict[Identity, Fields]) -> None:
        super().__init__()
        self.fields = fields

    def beyond(self, allowed: Fields) -> dict[Identity, Fields]:
        """Return the conflicts over fields outside of `allowed`."""
        left = {identity: difference(fields, allowed) for identity, fields in self.fields.items()}
        return {identity: fields for identity, fields in left.items() if fields}

    def refusal(self) -> StatusError:
        """Build the error for the client."""
        found = [
            (_shown(identity), path)
            for identity in sorted(self.fields, key=Identity.text)
            for path in paths(self.fields[identity])
        ]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
            for who, path in found
        ]
        if len(found) == 1:
            ((who, path),) = found
            message = f"Apply failed with 1 conflict: conflict with {who}: {path}"
        else:
            lines: list[str] = []
            for who, path in found:
                if (head := f"conflicts with {who}:") not in lines:
                    lines.append(head)
                lines.append(f"- {path}")
            message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
        return StatusError(409, "Conflict", message, details={"causes": causes})


def _shown(identity: Identity) -> str:
    text = quoted(identity.manager)
    if identity.subresource:
        text += f" with subresource {quoted(identity.subresource)}"
    return f"{text} using {identity.api_version}" if identity.operation == "Update" else text
