"""What names a kind."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GroupVersionKind"]


class GroupVersionKind(NamedTuple):
    """API group (empty for the core group), version and kind."""

    group: str
    version: str
    kind: str

    @classmethod
    def from_api_version(cls, api_version: str, kind: str) -> GroupVersionKind:
        """Build one from an object's `apiVersion` (`v1`, `apps/v1`) and `kind`."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects of this kind: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """As kubectl writes it: `Deployment.v1.apps`, `Pod.v1`."""
        return f"{self.kind}.{self.version}.{self.group}" if self.group else f"{self.kind}.{self.version}"
