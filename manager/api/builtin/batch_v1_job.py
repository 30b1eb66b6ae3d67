# Made by scripts/generate-api-models; do not edit.
"""Types of batch/v1: JobTemplateSpec, CronJobSpec."""

from __future__ import annotations

from typing import Annotated

from manager.api.builtin.core_v1_pod import PodTemplateSpec
from manager.api.builtin.meta_v1_selector import LabelSelector
from manager.api.builtin.part import Part
from manager.api.meta import ObjectMeta
from manager.api.schema import Int32, Int64, atomic_list, list_set

__all__ = [
    "CronJobSpec",
    "JobSpec",
    "JobTemplateSpec",
    "PodFailurePolicy",
    "PodFailurePolicyOnExitCodesRequirement",
    "PodFailurePolicyOnPodConditionsPattern",
    "PodFailurePolicyRule",
    "SuccessPolicy",
    "SuccessPolicyRule",
]


class PodFailurePolicyOnExitCodesRequirement(Part):
    container_name: str | None = None
    operator: str
    values: Annotated[list[Int32], list_set()]


class PodFailurePolicyOnPodConditionsPattern(Part):
    type: str
    status: str | None = None


class PodFailurePolicyRule(Part):
    action: str
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: Annotated[list[PodFailurePolicyOnPodConditionsPattern] | None, atomic_list()] = None


class PodFailurePolicy(Part):
    rules: Annotated[list[PodFailurePolicyRule], atomic_list()]


class SuccessPolicyRule(Part):
    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(Part):
    rules: Annotated[list[SuccessPolicyRule], atomic_list()]


class JobSpec(Part):
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    active_deadline_seconds: Int64 | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec
    ttl_seconds_after_finished: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None


class JobTemplateSpec(Part):
    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class CronJobSpec(Part):
    schedule: str
    time_zone: str | None = None
    starting_deadline_seconds: Int64 | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None
    job_template: JobTemplateSpec
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None
