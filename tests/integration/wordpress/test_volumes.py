"""What a site's data goes through: kept, taken up again, collected, grown."""

from __future__ import annotations

import pytest

from tests.support.control_plane import Feature
from tests.support.eventually import consistently, eventually
from tests.support.wordpresses import (
    CHILDREN,
    COLLECTED,
    RETAINED,
    WordpressWalk,
    requested,
)

CLAIMS = ("site-mysql-pv-claim", "site-wp-pv-claim")


def retained_uids(walk: WordpressWalk) -> list[str]:
    return [child["metadata"]["uid"] for child in list(walk.children("site"))[: len(RETAINED)]]


@pytest.mark.contract
def test_what_is_retained_is_taken_up_by_a_site_of_the_same_name(walk: WordpressWalk) -> None:
    walk.plane.require(Feature.WORKLOADS, Feature.READY_PODS)
    walk.create("site")
    eventually(lambda: walk.is_available("site"))
    uids, passwords = retained_uids(walk), walk.passwords("site")
    walk.delete("site")
    eventually(lambda: walk.missing("site") == walk.missing("site", COLLECTED) != [])
    eventually(lambda: len(walk.missing("site")) == len(COLLECTED))

    walk.create("site", storageSize="20Gi")
    eventually(lambda: walk.is_available("site"))
    assert retained_uids(walk) == uids
    assert walk.passwords("site") == passwords
    assert walk.condition("site", "Degraded")["status"] == "False"
    eventually(lambda: [requested(walk.claim(name)) for name in CLAIMS] == ["20Gi", "20Gi"])
    walk.delete("site")
    eventually(lambda: len(walk.missing("site")) == len(COLLECTED))

    # Another root password does not fit the database that is there: that stays as it is, and works.
    walk.create("site", sqlrootpassword="another-password", storageSize="1Gi", storageClassName="fixed-size")
    eventually(lambda: walk.is_available("site"))
    assert walk.passwords("site") == passwords
    assert retained_uids(walk) == uids
    # Nor does it shrink, or change its class.
    assert [requested(walk.claim(name)) for name in CLAIMS] == ["20Gi", "20Gi"]
    degraded = walk.condition("site", "Degraded")
    assert degraded["status"] == "True"
    assert "another root password" in degraded["message"]
    assert "storage class standard, not fixed-size" in degraded["message"]
    eventually(lambda: walk.events("site")["RootPasswordDiffers"] == 1)


def test_without_its_secret_a_database_has_passwords_that_nobody_knows(walk: WordpressWalk) -> None:
    walk.plane.require(Feature.READY_PODS)
    walk.create("site")
    eventually(lambda: walk.is_available("site"))
    before = walk.passwords("site")
    walk.kubectl("delete", "secret", "site-mysql")
    eventually(lambda: walk.missing("site") == [])
    after = walk.passwords("site")
    assert after["root-password"] == before["root-password"]
    assert after["password"] != before["password"]
    eventually(lambda: walk.events("site")["PasswordRenewed"] == 1)


@pytest.mark.contract
def test_what_is_to_be_deleted_goes_with_the_site(walk: WordpressWalk) -> None:
    walk.plane.require(Feature.WORKLOADS, Feature.READY_PODS)
    walk.create("site", reclaimPolicy="Delete")
    eventually(lambda: walk.is_available("site"))
    first = retained_uids(walk)
    # Made again at once, the new site waits for what the old one leaves, and starts afresh.
    walk.kubectl("delete", "wordpress", "site", "--wait=true")
    walk.create("site", reclaimPolicy="Delete")
    eventually(lambda: walk.missing("site") == [] and not set(retained_uids(walk)) & set(first))
    eventually(lambda: walk.is_available("site"))
    assert "NameTaken" not in walk.events("site")
    walk.delete("site")
    eventually(lambda: len(walk.missing("site")) == len(CHILDREN))


def test_volumes_grow_where_they_can(walk: WordpressWalk) -> None:
    walk.plane.require(Feature.READY_PODS)
    walk.create("site", storageSize="1Gi")
    walk.create("fixed", storageSize="1Gi", storageClassName="fixed-size")
    for name in ("site", "fixed"):
        eventually(lambda name=name: walk.is_available(name))
    # The same in other words is no change.
    for name in ("site", "fixed"):
        walk.change(name, storageSize="1024Mi")
        eventually(lambda name=name: walk.site(name)["status"]["observedGeneration"] == 2)
    assert "Grown" not in walk.events("site")
    assert walk.condition("fixed", "Degraded")["status"] == "False"

    for name in ("site", "fixed"):
        walk.change(name, storageSize="1.5Gi")
    eventually(lambda: [requested(walk.claim(name)) for name in CLAIMS] == ["1536Mi", "1536Mi"])
    eventually(lambda: walk.events("site")["Grown"] == 2)
    assert walk.condition("site", "Degraded")["status"] == "False"

    # Where the class does not allow it, that is said once, and not asked for again and again.
    eventually(lambda: walk.is_degraded("fixed", "VolumeNotGrown"))
    eventually(lambda: walk.events("fixed")["VolumeNotGrown"] == 2)
    assert walk.is_available("fixed")
    assert requested(walk.claim("fixed-wp-pv-claim")) == "1Gi"
    refused = walk.manager.metrics().value("rest_client_requests_total", code="403")
    assert refused == 2
    walk.kubectl("annotate", "deployment", "fixed", "note=hello")
    consistently(
        lambda: walk.manager.metrics().value("rest_client_requests_total", code="403") == refused, during=1
    )

    refusal = walk.plane.kubectl(
        f"--namespace={walk.namespace}",
        *("patch", "wordpress", "site", "--type=merge", "-p", '{"spec":{"storageSize":"1Gi"}}'),
        check=False,
    )
    assert "can grow, but not shrink" in refusal.stderr


def test_a_claim_that_is_deleted_is_told_of_and_made_anew(walk: WordpressWalk) -> None:
    walk.plane.require(Feature.WORKLOADS, Feature.READY_PODS)
    walk.create("site")
    eventually(lambda: walk.is_available("site"))
    # Its pod holds it, so it stays for the time being.
    walk.kubectl("delete", "pvc", "site-wp-pv-claim", "--wait=false")
    eventually(lambda: walk.is_degraded("site", "BeingDeleted"))
    assert walk.condition("site", "Available")["status"] == "True"
    old = walk.claim("site-wp-pv-claim")["metadata"]["uid"]
    walk.kubectl("scale", "deployment", "site", "--replicas=0")
    eventually(lambda: walk.claim("site-wp-pv-claim")["metadata"]["uid"] != old)
    eventually(lambda: walk.is_available("site"))
    assert walk.condition("site", "Degraded")["status"] == "False"
