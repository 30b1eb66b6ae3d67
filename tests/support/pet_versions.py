"""Pets as people write them in either version, and what kubectl is told about them."""

from __future__ import annotations

import json
from typing import Any

from tests.support.pets import pet

GROUP = "petstore.example.com"
BETA, ALPHA = f"pets.v1beta1.{GROUP}", f"pets.v1alpha1.{GROUP}"
"""What kubectl takes for the resource in one version."""


def beta(object_name: str, **fields: Any) -> dict[str, Any]:
    """A Pet as it is written today, with any value in any field."""
    written = pet(object_name)
    written["spec"] |= fields
    return written


def alpha(
    object_name: str, name: Any = "Thor", species: Any = "dog", birthday: Any = "2021-04-01T00:00:00Z"
) -> dict[str, Any]:
    """The same as it was written in the first version."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "Pet",
        "metadata": {"name": object_name},
        "spec": {"name": name, "type": species, "birthday": birthday},
    }


def spec(**fields: Any) -> tuple[str, ...]:
    """The arguments for `kubectl patch` that change these fields."""
    return ("--type=merge", "-p", json.dumps({"spec": fields}))
