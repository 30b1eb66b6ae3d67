"""What an Event is about."""

from __future__ import annotations

from dataclasses import dataclass

from manager.api import Resource

__all__ = ["ObjectReference"]


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """Names an object well enough for `kubectl describe` to find the Events about it.

    To be built by hand only for an object that is not at hand as a model; `of` does it otherwise.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def of(cls, obj: Resource) -> ObjectReference:
        """Return the reference to an object as it was read."""
        meta = obj.metadata
        return cls(obj.api_version, obj.kind, meta.namespace, meta.name, meta.uid, meta.resource_version)

    @property
    def subject(self) -> tuple[str, str, str, str, str]:
        """What stays the same from one version of the object to the next."""
        return (self.api_version, self.kind, self.namespace, self.name, self.uid)

    def to_wire(self) -> dict[str, str]:
        """Return the JSON form of `involvedObject`."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in fields.items() if value}

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"
