"""Revisions of a Deployment: their ReplicaSets and annotations."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from devcluster.controllers.client import Object
from devcluster.controllers.deployment import sizes
from devcluster.controllers.metadata import owner_reference
from devcluster.controllers.template_hash import template_hash

__all__ = ["HASH_LABEL", "REVISION", "annotate", "by_creation", "current", "new_replica_set", "revision_of"]

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
HASH_LABEL = "pod-template-hash"
NAME_LIMIT = 253
HISTORY_LIMIT = 2000

NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    sizes.DESIRED,
    sizes.MAXIMUM,
    "deprecated.deployment.rollback.to",
}


def by_creation(replica_sets: Sequence[Object]) -> list[Object]:
    """Sort ReplicaSets, the oldest first."""
    return sorted(
        replica_sets, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"])
    )


def revision_of(replica_set: Object) -> int:
    """Return the ReplicaSet's revision, or 0."""
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdigit() else 0


def current(deployment: Object, replica_sets: Sequence[Object]) -> Object | None:
    """Return the ReplicaSet of the Deployment's template, or None."""
    wanted = _plain(deployment["spec"]["template"])
    for each in by_creation(replica_sets):
        if _plain(each["spec"]["template"]) == wanted:
            return each
    return None


def new_replica_set(deployment: Object, old: Sequence[Object], revision: int) -> Object:
    """Build the ReplicaSet for the Deployment's template."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    digest = template_hash(spec["template"], (deployment.get("status") or {}).get("collisionCount"))
    template = copy.deepcopy(spec["template"])
    labels = {**(template.get("metadata") or {}).get("labels", {}), HASH_LABEL: digest}
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    selector = copy.deepcopy(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
    replica_set: Object = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name'][: NAME_LIMIT - len(digest) - 1]}-{digest}",
            "namespace": metadata["namespace"],
            "labels": dict(labels),
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }
    if spec.get("minReadySeconds"):
        replica_set["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    replica_set["spec"]["replicas"] = sizes.new_size(deployment, [*old, replica_set], 0)
    annotate(replica_set, deployment, revision, sized=True)
    return replica_set


def annotate(replica_set: Object, deployment: Object, revision: int, *, sized: bool) -> bool:
    """Give a ReplicaSet the Deployment's annotations and its revision, with `sized` the counts too.

    Returns whether anything changed.
    """
    old = replica_set["metadata"].get("annotations") or {}
    new = dict(old)
    given = deployment["metadata"].get("annotations") or {}
    new.update({name: value for name, value in given.items() if name not in NOT_COPIED})
    if old.get(REVISION, "0").isdigit() and int(old.get(REVISION, "0")) < revision:
        new[REVISION] = str(revision)
        if REVISION in old:
            _remember(new, old[REVISION])
    if sized:
        wanted = sizes.replicas(deployment)
        new[sizes.DESIRED] = str(wanted)
        new[sizes.MAXIMUM] = str(wanted + sizes.max_surge(deployment))
    if new == old:
        return False
    replica_set["metadata"]["annotations"] = new
    return True


def _remember(annotations: dict[str, str], revision: str) -> None:
    history = [*filter(None, annotations.get(HISTORY, "").split(",")), revision]
    while len(",".join(history)) > HISTORY_LIMIT:
        history.pop(0)
    annotations[HISTORY] = ",".join(history)


def _plain(template: Object) -> Object:
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    kept = {name: value for name, value in metadata.items() if name not in {"labels", "creationTimestamp"}}
    return {**template, "metadata": {**kept, "labels": labels}}
