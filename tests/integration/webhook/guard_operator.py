"""Program with one operator, which has webhooks for foreign kinds.

python -m tests.integration.webhook.guard_operator run ...
"""

from __future__ import annotations

import sys

from manager import Operator, webhook
from manager.api import Resource, Unstructured, crd
from manager.cli import main
from manager.webhook import AdmissionRequest, JsonObject, Refused, forbidden, required
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod

__all__ = ["Guard", "GuardOperator"]

WATCHED = {"matchLabels": {"guarded": "yes"}}


@crd(status=False)
class Guard(Resource, group="test.example.com", version="v1", plural="guards"):
    """Primary kind of the operator, which no test needs."""


class GuardOperator(Operator[Guard]):
    """Operator with webhooks for Pods, pod subresources, and the scale of Deployments."""

    pods = webhook.Admission(
        Pod,
        namespaces=WATCHED,
        objects={"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]},
        match_conditions={"by-no-robot": "!request.userInfo.username.startsWith('robot')"},
        failure_policy="Fail",
        default_on=("CREATE",),
    )
    parts = webhook.Admission(
        Pod, subresources=("exec", "eviction"), failure_policy="Fail", namespaces=WATCHED
    )
    scales = webhook.Admission(Deployment, subresources=("scale",), failure_policy="Fail", namespaces=WATCHED)
    states = webhook.Admission(Pod, subresources=("status",), failure_policy="Fail", namespaces=WATCHED)

    @pods.default
    async def note(self, pod: JsonObject, request: AdmissionRequest) -> None:
        """Note the creator of the pod in an annotation."""
        pod["metadata"]["annotations"] = {"made-by": request.user.name}

    @pods.validate_create
    async def check(self, pod: Pod, request: AdmissionRequest) -> None:
        """Require a team."""
        if "team" not in pod.metadata.labels:
            raise Refused(required("metadata.labels[team]"))

    @pods.validate_delete
    async def keep(self, pod: Pod, request: AdmissionRequest) -> list[str]:
        """Warn."""
        return [f"{pod.metadata.name} was {pod.metadata.labels['team']}'s"]

    @parts.validate_connect
    async def enter(self, options: Unstructured, request: AdmissionRequest) -> None:
        """Refuse to run a shell."""
        if options.content.get("command") == ["sh"]:
            raise Refused(f"no shell in {request.name}")

    @parts.validate_create
    async def evict(self, eviction: Unstructured, request: AdmissionRequest) -> None:
        """Refuse every eviction."""
        raise Refused(f"{eviction.gvk.kind} of {eviction.metadata.name}: not now")

    @scales.validate_update
    async def scale(self, old: Unstructured, new: Unstructured, request: AdmissionRequest) -> None:
        """Refuse more than three replicas."""
        if new.content["spec"].get("replicas", 0) > 3:
            raise Refused(forbidden("spec.replicas", f"{old.content['spec'].get('replicas', 0)} are enough"))

    @states.validate_update
    async def judge_state(self, old: Pod, new: Pod, request: AdmissionRequest) -> None:
        """Refuse the phase Failed in a status."""
        if request.object is not None and request.object["status"].get("phase") == "Failed":
            raise Refused(forbidden("status.phase", "is not to fail"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], [GuardOperator], name="guard", version="1"))
