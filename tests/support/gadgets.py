"""A kind with an old and a new version, without a conversion or with one, to be stored in either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.crds import DEFINITIONS, wait_served

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.support.control_plane import ControlPlane

GROUP, PLURAL = "test.example.com", "gadgets"
GADGETS = f"{PLURAL}.{GROUP}"
OLD, NEW = "v1alpha1", "v1beta1"


def definition(
    storage: str,
    *,
    rules: Iterable[Mapping[str, Any]] = (),
    conversion: Mapping[str, Any] | None = None,
    status: bool = True,
) -> dict[str, Any]:
    """The definition with that storage version; the name of the one field is `size` in each version.

    `rules` are validations of the spec. With a `conversion`, the field is `dimension` in the new version.
    """
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": GADGETS},
        "spec": {
            "group": GROUP,
            "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": PLURAL, "singular": "gadget"},
            "scope": "Namespaced",
            "versions": [
                _version(name, storage, field, rules, status=status)
                for name, field in ((OLD, "size"), (NEW, "dimension" if conversion else "size"))
            ],
            "conversion": conversion or {"strategy": "None"},
        },
    }


def install(plane: ControlPlane, storage: str, **options: Any) -> None:
    """Apply the definition, and wait until it is served."""
    plane.api.apply([definition(storage, **options)])
    wait_served(plane)


def gadgets_path(namespace: str, version: str = NEW) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/{namespace}/{PLURAL}"


def create(plane: ControlPlane, namespace: str, count: int, *, version: str = OLD) -> None:
    """Create gadgets `g0000` and so on, of sizes 0 and so on."""
    plane.api.create_many(
        gadgets_path(namespace, version), [gadget(number, version) for number in range(count)]
    )


def gadget(number: int, version: str = OLD) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Gadget",
        "metadata": {"name": f"g{number:04}", "labels": {"app": "gadgets"}},
        "spec": {"size": number},
    }


def stored_versions_of(plane: ControlPlane) -> list[str]:
    """What the definition says of them."""
    found: list[str] = plane.api.get(f"{DEFINITIONS}/{GADGETS}")["status"]["storedVersions"]
    return found


def _version(
    name: str, storage: str, field: str, rules: Iterable[Mapping[str, Any]], *, status: bool
) -> dict[str, Any]:
    spec = {"type": "object", "properties": {field: {"type": "integer"}}}
    if rules:
        spec["x-kubernetes-validations"] = list(rules)
    properties = {"spec": spec, "status": {"type": "object", "properties": {"seen": {"type": "integer"}}}}
    return {
        "name": name,
        "served": True,
        "storage": name == storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        **({"subresources": {"status": {}}} if status else {}),
    }
