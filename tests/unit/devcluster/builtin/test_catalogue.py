"""Table rows of kinds that cannot be recorded, because the real server's controllers change the objects."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.builtin import resources
from devcluster.clock import Clock

NOW = "2026-01-31T12:00:00Z"
STRATEGIES = {each.kind: each.strategy for each in resources(clock=Clock(lambda: 1_769_860_800.0))}


@pytest.mark.parametrize(
    ("kind", "obj", "cells"),
    [
        ("APIService", {"spec": {"group": "a"}}, ["a", "Local", "Unknown", "0s"]),
        (
            "APIService",
            {
                "spec": {"service": {"namespace": "b", "name": "c"}},
                "status": {"conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]},
            },
            ["a", "b/c", "False (Gone)", "0s"],
        ),
        (
            "CertificateSigningRequest",
            {"spec": {"signerName": "b/c", "username": "d"}},
            ["a", "0s", "b/c", "d", "<none>", "Pending"],
        ),
        (
            "CertificateSigningRequest",
            {
                "spec": {"signerName": "b/c", "expirationSeconds": 600},
                "status": {"conditions": [{"type": "Approved"}], "certificate": "eA=="},
            },
            ["a", "0s", "b/c", "", 600, "Approved,Issued"],
        ),
        (
            "IPAddress",
            {"spec": {"parentRef": {"resource": "services", "namespace": "b", "name": "c"}}},
            ["a", "services/b/c"],
        ),
        ("FlowSchema", {"spec": {"matchingPrecedence": 9}}, ["a", "<none>", "9", "<none>", "0s", "?"]),
    ],
)
def test_builtin_kind_returns_the_table_cells_of_an_object(kind: str, obj: dict[str, Any], cells: list[Any]):
    assert STRATEGIES[kind].row({"metadata": {"name": "a", "creationTimestamp": NOW}, **obj}) == cells
