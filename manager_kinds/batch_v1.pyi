# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Required, TypedDict

from manager.api import ObjectMeta, Resource
from manager_kinds.core_v1 import ObjectReference, ObjectReferenceDict, PodTemplateSpec, PodTemplateSpecDict
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import LabelSelector, LabelSelectorDict, ObjectMetaDict

__all__ = [
    "CronJob",
    "CronJobSpec",
    "CronJobSpecDict",
    "CronJobStatus",
    "CronJobStatusDict",
    "Job",
    "JobCondition",
    "JobConditionDict",
    "JobSpec",
    "JobSpecDict",
    "JobStatus",
    "JobStatusDict",
    "JobTemplateSpec",
    "JobTemplateSpecDict",
    "PodFailurePolicy",
    "PodFailurePolicyDict",
    "PodFailurePolicyOnExitCodesRequirement",
    "PodFailurePolicyOnExitCodesRequirementDict",
    "PodFailurePolicyOnPodConditionsPattern",
    "PodFailurePolicyOnPodConditionsPatternDict",
    "PodFailurePolicyRule",
    "PodFailurePolicyRuleDict",
    "SuccessPolicy",
    "SuccessPolicyDict",
    "SuccessPolicyRule",
    "SuccessPolicyRuleDict",
    "UncountedTerminatedPods",
    "UncountedTerminatedPodsDict",
]

class CronJob(Resource, group="batch", version="v1", plural="cronjobs"):
    """CronJob of batch/v1."""

    spec: CronJobSpecDict = {}
    status: CronJobStatusDict = {}

class CronJobSpec(Part[CronJobSpecDict]):
    schedule: str
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None
    job_template: JobTemplateSpec
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None

class CronJobSpecDict(TypedDict, total=False):
    schedule: str
    timeZone: str
    startingDeadlineSeconds: int
    concurrencyPolicy: str
    suspend: bool
    jobTemplate: JobTemplateSpecDict
    successfulJobsHistoryLimit: int
    failedJobsHistoryLimit: int

class CronJobStatus(Part[CronJobStatusDict]):
    active: list[ObjectReference] | None = None
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None

class CronJobStatusDict(TypedDict, total=False):
    active: list[ObjectReferenceDict]
    lastScheduleTime: str
    lastSuccessfulTime: str

class Job(Resource, group="batch", version="v1", plural="jobs"):
    """Job of batch/v1."""

    spec: JobSpecDict = {}
    status: JobStatusDict = {}

class JobCondition(Part[JobConditionDict]):
    type: str
    status: str
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class JobConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastProbeTime: str
    lastTransitionTime: str
    reason: str
    message: str

class JobSpec(Part[JobSpecDict]):
    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec
    ttl_seconds_after_finished: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None

class JobSpecDict(TypedDict, total=False):
    parallelism: int
    completions: int
    activeDeadlineSeconds: int
    podFailurePolicy: PodFailurePolicyDict
    successPolicy: SuccessPolicyDict
    backoffLimit: int
    backoffLimitPerIndex: int
    maxFailedIndexes: int
    selector: LabelSelectorDict
    manualSelector: bool
    template: PodTemplateSpecDict
    ttlSecondsAfterFinished: int
    completionMode: str
    suspend: bool
    podReplacementPolicy: str
    managedBy: str

class JobStatus(Part[JobStatusDict]):
    conditions: list[JobCondition] | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None
    active: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    terminating: int | None = None
    completed_indexes: str | None = None
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: int | None = None

class JobStatusDict(TypedDict, total=False):
    conditions: list[JobConditionDict]
    startTime: str
    completionTime: str
    active: int
    succeeded: int
    failed: int
    terminating: int
    completedIndexes: str
    failedIndexes: str
    uncountedTerminatedPods: UncountedTerminatedPodsDict
    ready: int

class JobTemplateSpec(Part[JobTemplateSpecDict]):
    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None

class JobTemplateSpecDict(TypedDict, total=False):
    metadata: ObjectMetaDict
    spec: JobSpecDict

class PodFailurePolicy(Part[PodFailurePolicyDict]):
    rules: list[PodFailurePolicyRule]

class PodFailurePolicyDict(TypedDict, total=False):
    rules: Required[list[PodFailurePolicyRuleDict]]

class PodFailurePolicyOnExitCodesRequirement(Part[PodFailurePolicyOnExitCodesRequirementDict]):
    container_name: str | None = None
    operator: str
    values: list[int]

class PodFailurePolicyOnExitCodesRequirementDict(TypedDict, total=False):
    containerName: str
    operator: Required[str]
    values: Required[list[int]]

class PodFailurePolicyOnPodConditionsPattern(Part[PodFailurePolicyOnPodConditionsPatternDict]):
    type: str
    status: str | None = None

class PodFailurePolicyOnPodConditionsPatternDict(TypedDict, total=False):
    type: Required[str]
    status: str

class PodFailurePolicyRule(Part[PodFailurePolicyRuleDict]):
    action: str
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: list[PodFailurePolicyOnPodConditionsPattern] | None = None

class PodFailurePolicyRuleDict(TypedDict, total=False):
    action: Required[str]
    onExitCodes: PodFailurePolicyOnExitCodesRequirementDict
    onPodConditions: list[PodFailurePolicyOnPodConditionsPatternDict]

class SuccessPolicy(Part[SuccessPolicyDict]):
    rules: list[SuccessPolicyRule]

class SuccessPolicyDict(TypedDict, total=False):
    rules: Required[list[SuccessPolicyRuleDict]]

class SuccessPolicyRule(Part[SuccessPolicyRuleDict]):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None

class SuccessPolicyRuleDict(TypedDict, total=False):
    succeededIndexes: str
    succeededCount: int

class UncountedTerminatedPods(Part[UncountedTerminatedPodsDict]):
    succeeded: list[str] | None = None
    failed: list[str] | None = None

class UncountedTerminatedPodsDict(TypedDict, total=False):
    succeeded: list[str]
    failed: list[str]
