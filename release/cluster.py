"""A check that a cluster serves all kinds of the manifests, by what kubectl reports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

__all__ = ["DoesNotFit", "check_fits", "only_served"]

Manifest = dict[str, Any]


class DoesNotFit(Exception):
    """The cluster would accept only a part of the manifests; the message names the missing kinds."""


def check_fits(manifests: Sequence[Manifest], served: Collection[str], namespaces: Collection[str]) -> None:
    """Raise DoesNotFit for an API version or a namespace that is neither there nor among the manifests.

    One that is empty is not known, and nothing is held against it.
    """
    if served:
        unknown = sorted({each["apiVersion"] for each in manifests} - {*served})
        if unknown:
            raise DoesNotFit(f"nothing was applied: the cluster does not serve {', '.join(unknown)}")
    if namespaces:
        made = {each["metadata"]["name"] for each in manifests if each["kind"] == "Namespace"}
        asked = {each["metadata"]["namespace"] for each in manifests if "namespace" in each["metadata"]}
        missing = sorted(asked - made - {*namespaces})
        if missing:
            raise DoesNotFit(f"nothing was applied: first create namespace {', '.join(missing)}")


def only_served(manifests: Sequence[Manifest], served: Collection[str]) -> list[Manifest]:
    """Return the manifests of served kinds: objects of other kinds cannot exist, so none need deletion."""
    return [each for each in manifests if not served or each["apiVersion"] in served]
