"""A program with one operator, whose webhooks review its own kind, Pods and Deployments.

python -m tests.integration.webhook.judged_operator run ...
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

from pydantic import Field

from manager import Operator, webhook
from manager.api import ApiModel, Resource, Unstructured, crd
from manager.cli import main
from manager.webhook import AdmissionRequest, JsonObject, Refused, forbidden, invalid, required
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod

__all__ = ["Judged", "JudgedOperator"]

GUARDED = {"matchLabels": {"guarded": "yes"}}


class JudgedSpec(ApiModel):
    """Spec that tells the webhook what to decide about the object."""

    ask: str = ""
    """"refuse", "warn", "fail" or "dawdle"; anything else is accepted."""
    notes: dict[str, str] = Field(default_factory=dict)


@crd(status=False)
class Judged(Resource, group="test.example.com", version="v1", plural="judgeds"):
    """Object whose `spec.ask` says what its webhook must decide."""

    spec: JudgedSpec = Field(default_factory=JudgedSpec)


class JudgedOperator(Operator[Judged]):
    """Operator whose webhooks decide what the object's spec says; it reconciles nothing."""

    admission = webhook.AdmissionOptions(timeout_seconds=2)
    pods = webhook.Admission(
        Pod,
        namespaces=GUARDED,
        objects={"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]},
        match_conditions={"by-no-robot": "!request.userInfo.username.startsWith('robot')"},
        failure_policy="Fail",
        default_on=("CREATE",),
    )
    parts = webhook.Admission(
        Pod, subresources=("exec", "eviction"), failure_policy="Fail", namespaces=GUARDED
    )
    scales = webhook.Admission(Deployment, subresources=("scale",), failure_policy="Fail", namespaces=GUARDED)
    states = webhook.Admission(Pod, subresources=("status",), failure_policy="Fail", namespaces=GUARDED)

    @webhook.default
    async def note(self, judged: JsonObject, request: AdmissionRequest) -> None:
        """Add an entry to the map `spec.notes`; a JSON patch must escape the key of this entry."""
        spec = judged.get("spec")
        if isinstance(spec, dict):
            notes = spec.setdefault("notes", {})
            if isinstance(notes, dict):
                notes["asked by/~"] = f"{request.user.name} to {request.operation}"

    @webhook.validate_create
    async def judge(self, judged: Judged, request: AdmissionRequest) -> Iterable[str] | None:
        """Refuse, warn, fail or take too long, as `spec.ask` says; else accept."""
        match judged.spec.ask:
            case "refuse":
                raise Refused(invalid("spec.ask", judged.spec.ask, "must not be asked"))
            case "warn":
                return [f"careful with {judged.metadata.name}"]
            case "fail":
                raise LookupError(judged.spec.ask)
            case "dawdle":
                await asyncio.sleep(60)
        return None

    @webhook.validate_update
    async def judge_change(self, old: Judged, new: Judged, request: AdmissionRequest) -> Iterable[str] | None:
        """Refuse a change of `spec.ask`."""
        if old.spec.ask != new.spec.ask:
            raise Refused(forbidden("spec.ask", "may not change"))
        return None

    @webhook.validate_delete
    async def judge_end(self, judged: Judged, request: AdmissionRequest) -> Iterable[str] | None:
        return [f"{judged.metadata.name} is gone for good"]

    @pods.default
    async def note_creator(self, pod: JsonObject, request: AdmissionRequest) -> None:
        """Write the pod's creator into an annotation."""
        pod["metadata"]["annotations"] = {"made-by": request.user.name}

    @pods.validate_create
    async def check(self, pod: Pod, request: AdmissionRequest) -> None:
        """Refuse a pod without the label of a team."""
        if "team" not in pod.metadata.labels:
            raise Refused(required("metadata.labels[team]"))

    @pods.validate_delete
    async def keep(self, pod: Pod, request: AdmissionRequest) -> list[str]:
        """Allow the deletion with a warning."""
        return [f"{pod.metadata.name} was {pod.metadata.labels['team']}'s"]

    @parts.validate_connect
    async def enter(self, options: Unstructured, request: AdmissionRequest) -> None:
        """Refuse an exec that runs a shell."""
        if options.content.get("command") == ["sh"]:
            raise Refused(f"no shell in {request.name}")

    @parts.validate_create
    async def evict(self, eviction: Unstructured, request: AdmissionRequest) -> None:
        """Refuse every eviction."""
        raise Refused(f"{eviction.gvk.kind} of {eviction.metadata.name}: not now")

    @scales.validate_update
    async def scale(self, old: Unstructured, new: Unstructured, request: AdmissionRequest) -> None:
        """Refuse a scale to more than three replicas."""
        if new.content["spec"].get("replicas", 0) > 3:
            raise Refused(forbidden("spec.replicas", f"{old.content['spec'].get('replicas', 0)} are enough"))

    @states.validate_update
    async def judge_state(self, old: Pod, new: Pod, request: AdmissionRequest) -> None:
        """Refuse a pod status with the phase Failed."""
        if request.object is not None and request.object["status"].get("phase") == "Failed":
            raise Refused(forbidden("status.phase", "is not to fail"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], [JudgedOperator], name="operator-manager", version="1"))
