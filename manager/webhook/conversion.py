"""Registering the functions that turn an object of one version into the same object in another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from manager.api import Resource
from manager.webhook.json_object import JsonObject
from manager.webhook.registration import RegistrationError, check_function

__all__ = ["CONVERSION_PATH", "Conversion", "Convert"]

CONVERSION_PATH = "/convert"
"""Where all kinds are converted, as in controller-runtime."""

Convert = Callable[[JsonObject], Awaitable[None]]


class Conversion:
    """The versions of one kind, and how to get from each to the hub and back.

        conversion = Conversion(Pet)                  # the hub, which is the storage version

        @conversion.to_hub(OldPet)
        async def from_v1alpha1(pet: JsonObject) -> None: ...

        @conversion.from_hub(OldPet)
        async def to_v1alpha1(pet: JsonObject) -> None: ...

    The functions get the plain JSON object, which no schema may have seen, and change it in place. The
    runtime sets `apiVersion`, and puts back whatever they do to metadata other than labels and annotations,
    which the API server would not accept. From one spoke to another the way is by the hub.

    Every object must survive the way there and back: what one version cannot hold rides in an annotation.
    """

    def __init__(self, hub: type[Resource]) -> None:
        """`hub` is the version that all others are converted to and from."""
        self.hub = hub
        self._spokes: dict[type[Resource], None] = {}
        self._to_hub: dict[type[Resource], Convert] = {}
        self._from_hub: dict[type[Resource], Convert] = {}

    def __repr__(self) -> str:
        return f"Conversion({self.hub.gvk})"

    def to_hub(self, spoke: type[Resource]) -> Callable[[Convert], Convert]:
        """Decorate the function that makes an object of the hub's version from one of `spoke`'s."""
        return self._registering(spoke, self._to_hub, f"convert {spoke.gvk} to {self.hub.gvk}")

    def from_hub(self, spoke: type[Resource]) -> Callable[[Convert], Convert]:
        """Decorate the function that makes an object of `spoke`'s version from one of the hub's."""
        return self._registering(spoke, self._from_hub, f"convert {self.hub.gvk} to {spoke.gvk}")

    @property
    def spokes(self) -> tuple[type[Resource], ...]:
        """The other versions, in the order in which they were registered."""
        return tuple(self._spokes)

    @property
    def path(self) -> str:
        """Where the API server asks for it."""
        return CONVERSION_PATH

    @property
    def converters_to_hub(self) -> Mapping[type[Resource], Convert]:
        """The functions by spoke."""
        return MappingProxyType(self._to_hub)

    @property
    def converters_from_hub(self) -> Mapping[type[Resource], Convert]:
        """The functions by spoke."""
        return MappingProxyType(self._from_hub)

    def check(self) -> None:
        """Raise `RegistrationError` unless every spoke can be converted both ways, and there is one."""
        if not self._spokes:
            raise RegistrationError(f"{self} has no other version to convert from or to")
        for spoke in self._spokes:
            for converters, way in ((self._to_hub, "to_hub"), (self._from_hub, "from_hub")):
                if spoke not in converters:
                    raise RegistrationError(f"{self} has no {way} function for {spoke.gvk}")

    def _registering(
        self, spoke: type[Resource], converters: dict[type[Resource], Convert], what: str
    ) -> Callable[[Convert], Convert]:
        hub, other = self.hub.gvk, spoke.gvk
        if (hub.group, hub.kind) != (other.group, other.kind) or hub.version == other.version:
            raise RegistrationError(f"{self}: {other} is not another version of the same kind")

        def register(function: Convert) -> Convert:
            check_function(function, what=what, taken=spoke in converters)
            self._spokes[spoke] = None
            converters[spoke] = function
            return function

        return register
