from __future__ import annotations

import pytest

from controllers.example.parts import DATABASE, FRONTEND
from controllers.example.volumes import grown_storage, wanted_claim
from manager_kinds.core_v1 import PersistentVolumeClaim
from tests.unit.controllers.example.world import site


def claim(storage: str, phase: str = "Bound") -> PersistentVolumeClaim:
    return PersistentVolumeClaim.model_validate(
        {"spec": {"resources": {"requests": {"storage": storage}}}, "status": {"phase": phase}}
    )


@pytest.mark.parametrize(
    ("wanted", "found", "grown"),
    [
        ("2Gi", claim("1Gi"), "2Gi"),
        ("1Gi", claim("1024Mi"), None),
        ("1025Mi", claim("1Gi"), "1025Mi"),
        ("1G", claim("1Gi"), None),
        ("9Gi", claim("10Gi"), None),
        ("2Gi", claim("1Gi", "Pending"), None),
        ("2Gi", claim("1Gi", "Lost"), None),
    ],
    ids=["more", "the same", "a little more", "in other units", "less", "not bound", "lost"],
)
def test_storage_claim_grows_only_when_bound_and_never_shrinks(
    wanted: str, found: PersistentVolumeClaim, grown: str | None
):
    assert grown_storage(site(storageSize=wanted), found) == grown


def test_storage_claims_follow_size_storage_class_and_reclaim_policy_of_the_spec():
    wanted = site(storageSize="3Gi", storageClassName="fast", reclaimPolicy="Delete")
    database, frontend = (wanted_claim(wanted, part, "test").to_wire() for part in (DATABASE, FRONTEND))
    for wire in (database, frontend):
        assert wire["spec"] == {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "3Gi"}},
        }
        assert wire["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert database["metadata"]["name"] == "blog-mysql-pv-claim"
    assert frontend["metadata"]["name"] == "blog-wp-pv-claim"
    kept = wanted_claim(site(), DATABASE, "test").to_wire()
    assert "ownerReferences" not in kept["metadata"]
    assert "storageClassName" not in kept["spec"]
