"""The pods of a StatefulSet: each has a number, a name, and claims of its own."""

from __future__ import annotations

import copy
import datetime

from devcluster.controllers.client import Object
from devcluster.controllers.pods import is_available, pod_from

__all__ = [
    "REVISION_LABEL",
    "claims_of",
    "is_unavailable",
    "ordinal_of",
    "revision_of",
    "start_of",
    "stateful_pod",
]

REVISION_LABEL = "controller-revision-hash"


def start_of(stateful_set: Object) -> int:
    """Return the ordinal of the first pod."""
    start: int = (stateful_set["spec"].get("ordinals") or {}).get("start", 0)
    return start


def ordinal_of(pod: Object, stateful_set: Object) -> int:
    """Return a pod's ordinal; -1 when its name has none."""
    prefix, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if prefix == stateful_set["metadata"]["name"] and number.isdigit() else -1


def revision_of(pod: Object) -> str:
    """Return the name of the pod's revision."""
    revision: str = (pod["metadata"].get("labels") or {}).get(REVISION_LABEL, "")
    return revision


def is_unavailable(pod: Object | None, min_ready: int, now: datetime.datetime) -> bool:
    """Return whether the pod is missing, unavailable, or terminating."""
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return True
    running = (pod.get("status") or {}).get("phase") == "Running"
    return not (running and is_available(pod, min_ready, now))


def stateful_pod(stateful_set: Object, template: Object, revision: str, ordinal: int) -> Object:
    """Build the pod with that ordinal, from the template of a revision."""
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    pod = pod_from(template, stateful_set, name=name)
    pod["metadata"]["generateName"] = f"{stateful_set['metadata']['name']}-"
    pod["metadata"]["labels"] = {
        **pod["metadata"].get("labels", {}),
        "apps.kubernetes.io/pod-index": str(ordinal),
        REVISION_LABEL: revision,
        "statefulset.kubernetes.io/pod-name": name,
    }
    spec = pod["spec"]
    spec["hostname"] = name
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    claims = claims_of(stateful_set, ordinal)
    if claims:
        own = [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
            for volume, claim in claims.items()
        ]
        spec["volumes"] = [*own, *(each for each in spec.get("volumes") or () if each["name"] not in claims)]
    return pod


def claims_of(stateful_set: Object, ordinal: int) -> dict[str, Object]:
    """Return the claims of the pod with that ordinal, by volume name."""
    metadata, claims = stateful_set["metadata"], {}
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        volume = template["metadata"]["name"]
        labels = {
            **(template["metadata"].get("labels") or {}),
            **(stateful_set["spec"]["selector"].get("matchLabels") or {}),
        }
        claim: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"{volume}-{metadata['name']}-{ordinal}",
                "namespace": metadata["namespace"],
                "labels": labels,
            },
            "spec": copy.deepcopy(template["spec"]),
        }
        if template["metadata"].get("annotations"):
            claim["metadata"]["annotations"] = dict(template["metadata"]["annotations"])
        claims[volume] = claim
    return claims
