from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from apis.example.v1.wordpress import SecretKeyReference, Wordpress, WordpressSpec
from controllers.example.parts import DATABASE, check_ours, claim_for, identity, is_claimed_for
from controllers.example.wordpress import WordpressOperator
from manager import Blocked
from manager.api import ObjectMeta, OwnerReference, find_condition, is_true
from manager_kinds.core_v1 import PersistentVolumeClaim, Secret
from manager_tools.testing import operated
from tests.unit.controllers.example.world import NOW, site

OURS = identity(site(), "test")


def owner(**changes: Any) -> OwnerReference:
    known = {"api_version": "example.com/v1", "kind": "Wordpress", "name": "blog", "uid": "u-1"}
    return OwnerReference(**{**known, "controller": True, **changes})


@pytest.mark.parametrize(
    "metadata",
    [
        ObjectMeta(name="c", labels=OURS),
        ObjectMeta(name="c", labels={**OURS, "more": "x"}),
        ObjectMeta(name="c", owner_references=[owner()]),
        ObjectMeta(name="c", labels=OURS, owner_references=[owner(uid="x", kind="Job", controller=None)]),
    ],
    ids=["by labels", "by labels among others", "by controller", "with another owner"],
)
def test_ownership_check_accepts_a_child_with_labels_or_owner_reference_of_the_site(metadata: ObjectMeta):
    check_ours("PersistentVolumeClaim", metadata, site(), "test")


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (ObjectMeta(name="c"), "NameTaken"),
        (ObjectMeta(name="c", labels={**OURS, "app.kubernetes.io/managed-by": "Helm"}), "NameTaken"),
        (ObjectMeta(name="c", labels={**OURS, "app.kubernetes.io/instance": "other"}), "NameTaken"),
        (ObjectMeta(name="c", labels=OURS, owner_references=[owner(uid="x", kind="Job")]), "NameTaken"),
        (ObjectMeta(name="c", labels=OURS, owner_references=[owner(uid="x", name="other")]), "NameTaken"),
        (ObjectMeta(name="c", labels=OURS, owner_references=[owner(uid="u-0")]), "LeftOver"),
        (ObjectMeta(name="c", owner_references=[owner(uid="u-0", api_version="example.com/v2")]), "LeftOver"),
        (ObjectMeta(name="c", labels=OURS, deletion_timestamp=NOW), "BeingDeleted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_ownership_check_refuses_a_child_of_another_owner_or_in_deletion(metadata: ObjectMeta, reason: str):
    with pytest.raises(Blocked) as blocked:
        check_ours("PersistentVolumeClaim", metadata, site(), "test")
    assert blocked.value.reason == reason
    assert "PersistentVolumeClaim c" in blocked.value.message
    assert blocked.value.passing is (reason == "LeftOver")


@pytest.mark.parametrize(
    ("deleted", "finalizers", "awaited"),
    [
        (None, [], "the cluster's garbage collector has yet to delete it"),
        (NOW, ["a/b", "c/d"], "it is being deleted, and waits for a/b, c/d"),
        (NOW, [], "it is being deleted, and waits for its end"),
    ],
)
def test_ownership_check_error_says_why_a_child_of_a_deleted_site_still_exists(
    deleted: datetime | None, finalizers: list[str], awaited: str
):
    metadata = ObjectMeta(name="c", deletion_timestamp=deleted, finalizers=finalizers)
    metadata.owner_references = [owner(uid="u-0")]
    with pytest.raises(Blocked) as blocked:
        check_ours("PersistentVolumeClaim", metadata, site(), "test")
    earlier = "PersistentVolumeClaim c of an earlier Wordpress of this name is still there"
    assert blocked.value.message == f"{earlier}: {awaited}"


def test_site_owns_its_child_only_with_reclaim_policy_delete():
    stranger = owner(uid="x", kind="Job", name="j", controller=None)
    labels = {"mine": "kept", "tier": "wrong"}
    metadata = ObjectMeta(name="c", namespace="default", labels=labels, owner_references=[stranger])
    for policy, uids in (("Delete", ["x", "u-1"]), ("Retain", ["x"])):
        wanted = site(reclaimPolicy=policy)
        assert not is_claimed_for(metadata, wanted, DATABASE, "test")
        claim_for(metadata, wanted, DATABASE, "test")
        assert is_claimed_for(metadata, wanted, DATABASE, "test")
        assert [each.uid for each in metadata.owner_references] == uids
        assert metadata.labels["mine"] == "kept"
        assert metadata.labels["tier"] == "mysql"


@pytest.mark.virtual_time
async def test_wordpress_is_degraded_until_blocking_objects_are_deleted_and_its_secret_exists():
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = PersistentVolumeClaim.model_validate({"metadata": {"name": "blog-wp-pv-claim"}, "spec": storage})
    secret = Secret(metadata=ObjectMeta(name="blog-mysql"))
    reference = SecretKeyReference(name="given", key="root")
    blog = Wordpress(
        metadata=ObjectMeta(name="blog"), spec=WordpressSpec(sql_root_password_secret_ref=reference)
    )
    async with operated(WordpressOperator, objects=[claim, secret, blog]) as world:

        async def wait_degraded(begin: str) -> None:
            def says(site: Wordpress) -> bool:
                found = find_condition(site.status.conditions, "Degraded")
                return found is not None and found.message.startswith(begin)

            await world.until(blog, says)

        await wait_degraded("PersistentVolumeClaim blog-wp-pv-claim already exists")
        await world.delete(await world.get(PersistentVolumeClaim, "blog-wp-pv-claim"))
        await wait_degraded("Secret blog-mysql already exists")
        await world.delete(await world.get(Secret, "blog-mysql"))
        await wait_degraded("waiting for Secret given")
        await world.create(Secret(metadata=ObjectMeta(name="given"), data={"root": "c2VjcmV0"}))
        await world.until(blog, lambda it: is_true(it.status.conditions, "Available"))
