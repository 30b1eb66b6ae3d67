"""A kind with a field for each of the built-in types that authors embed."""

from __future__ import annotations

from datetime import datetime

from manager.api import ApiModel, IntOrString, ObjectMeta, Quantity, Resource, crd
from manager_kinds.apps_v1 import DaemonSetSpec, DeploymentSpec, StatefulSetSpec
from manager_kinds.batch_v1 import CronJobSpec, JobSpec, JobTemplateSpec
from manager_kinds.core_v1 import (
    Affinity,
    EmbeddedPersistentVolumeClaim,
    EnvFromSource,
    EnvVar,
    ObjectReference,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimTemplate,
    PodSpec,
    PodTemplateSpec,
    Probe,
    ResourceRequirements,
    SecretKeySelector,
    ServiceSpec,
    Toleration,
    Volume,
)
from manager_kinds.meta_v1 import LabelSelector


class TickSpec(ApiModel):
    job_template: JobTemplateSpec | None = None
    pod_template: PodTemplateSpec | None = None
    pod_spec: PodSpec | None = None
    job: JobSpec | None = None
    cron_job: CronJobSpec | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFromSource] | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None
    probe: Probe | None = None
    tolerations: list[Toleration] | None = None
    affinity: Affinity | None = None
    claim: EmbeddedPersistentVolumeClaim | None = None
    claim_spec: PersistentVolumeClaimSpec | None = None
    claim_template: PersistentVolumeClaimTemplate | None = None
    meta: ObjectMeta | None = None
    volumes: list[Volume] | None = None
    service: ServiceSpec | None = None
    deployment: DeploymentSpec | None = None
    stateful_set: StatefulSetSpec | None = None
    daemon_set: DaemonSetSpec | None = None
    size: Quantity | None = None
    port: IntOrString | None = None
    ref: ObjectReference | None = None
    secret_key: SecretKeySelector | None = None
    amounts: dict[str, Quantity] | None = None
    when: datetime | None = None
    claim_status: PersistentVolumeClaimStatus | None = None


@crd(
    singular="ticktock",
    list_kind="TickCollection",
    categories=("clocks",),
    annotations={"test.example.com/why": "to be read"},
    labels={"team": "blue"},
    selectable_fields=(".spec.jobTemplate.spec.suspend", ".spec.when"),
)
class Tick(Resource, group="demo.example.com", version="v1", plural="ticks"):
    spec: TickSpec
