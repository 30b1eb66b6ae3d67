"""Kinds and their operators, from which tests generate files."""

from __future__ import annotations

import enum
from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from manager import Context, Operator, webhook
from manager.api import (
    ApiModel,
    Column,
    Condition,
    Int32,
    Int64,
    IntOrString,
    ObjectMeta,
    Quantity,
    Resource,
    atomic_list,
    atomic_map,
    cel,
    crd,
    list_map,
    list_set,
    preserve_unknown,
)
from manager.webhook import JsonObject
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


class Mode(enum.Enum):
    """How hard a widget tries."""

    FAST = "fast"
    SLOW = "slow"


class Port(ApiModel):
    """A port of a widget."""

    name: Annotated[str, Field(min_length=1, max_length=15)]
    """What the port is called."""
    number: Annotated[Int32, Field(ge=1, le=65535)]
    protocol: Literal["TCP", "UDP"] = "TCP"
    target: IntOrString | None = None


class Limits(ApiModel):
    """Range of a widget's movement.

    Both ends are
    included.
    """

    model_config = ConfigDict(
        json_schema_extra=cel("self.low <= self.high", "low must not be above high", field_path=".low")
    )

    low: int = 1
    high: int = 5


class WidgetSpec(ApiModel):
    """The widget that is wanted."""

    mode: Mode = Mode.FAST
    """How hard to try."""
    other_mode: Mode | None = None
    unit: Literal["metre"] = "metre"
    colour: Annotated[
        str, Field(pattern="^[a-z]+$", max_length=63), cel("self == oldSelf", "the colour is immutable")
    ] = "red"
    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.5
    step: Annotated[int, Field(multiple_of=5)] | None = None
    large: Int64 | None = None
    limits: Limits = Limits()
    """Where to stop."""
    spare_limits: Limits | None = None
    ports: Annotated[list[Port], Field(max_length=10), list_map("name", "protocol")] = Field(
        default_factory=list
    )
    tags: Annotated[list[Annotated[str, Field(max_length=20)]], list_set()] | None = None
    path: Annotated[list[int], atomic_list()] = Field(default=[1, 2])
    holes: list[str | None] = Field(default_factory=list)
    selector: Annotated[dict[str, str], atomic_map()] = Field(default_factory=dict)
    groups: dict[str, list[Port]] = Field(default_factory=dict)
    settings: Annotated[dict[str, Any], preserve_unknown()] = Field(default_factory=dict)
    anything: Annotated[Any, preserve_unknown()] = None
    since: datetime | None = None
    day: date | None = None
    serial: UUID | None = None
    title: str | None = None
    """A field named like a word of JSON Schema."""


class WidgetStatus(ApiModel):
    """The widget as it was last seen."""

    happy: bool | None = None
    conditions: Annotated[list[Condition], list_map("type")] = Field(default_factory=list)


@crd(
    columns=(
        Column("Mode", "string", ".spec.mode", "How hard it tries"),
        Column("Happy", "boolean", ".status.happy", priority=1),
    ),
    short_names=("wd",),
    categories=("things",),
)
class Widget(Resource, group="test.example.com", version="v1", plural="widgets"):
    """A widget."""

    spec: Annotated[
        WidgetSpec, cel("!has(self.since) || self.mode == 'slow'", "only slow widgets have a past")
    ]
    status: WidgetStatus | None = None


class WidgetOperator(Operator[Widget]):
    """Operator that reconciles nothing."""

    async def reconcile(self, obj: Widget, ctx: Context) -> None:
        """Do nothing."""


class GadgetSpec(ApiModel):
    """The gadget that is wanted."""

    size: int = 1


@crd(status=False)
class Gadget(Resource, group="test.example.com", version="v1", plural="gadgets", namespaced=False):
    """A gadget."""

    spec: GadgetSpec


@crd(storage=False, status=False, deprecated="use test.example.com/v1")
class OldGadget(
    Resource, group="test.example.com", version="v1beta1", kind="Gadget", plural="gadgets", namespaced=False
):
    """A gadget in the older API version."""

    spec: GadgetSpec


class GadgetOperator(Operator[Gadget]):
    """Operator that reconciles nothing."""

    versions = (OldGadget,)

    @webhook.to_hub(OldGadget)
    async def from_v1beta1(self, gadget: JsonObject) -> None:
        """Leave the object unchanged: the versions are equal."""

    @webhook.from_hub(OldGadget)
    async def to_v1beta1(self, gadget: JsonObject) -> None:
        """Leave the object unchanged: the versions are equal."""


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
