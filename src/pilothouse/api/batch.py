"""``batch/v1``: Jobs and CronJobs."""

import datetime

import msgspec

from pilothouse.api.core import ObjectReference
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta, View


class ExitCodesRequirement(View, frozen=True):
    """The exit codes that a rule matches, and the container (``container_name`` empty: any)."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[int, ...] = ()


class PodConditionPattern(View, frozen=True):
    type: str = ""
    status: str = "True"


class PodFailurePolicyRule(View, frozen=True):
    action: str = ""
    on_exit_codes: ExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class PodFailurePolicy(View, frozen=True):
    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(View, frozen=True):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(View, frozen=True):
    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(View, frozen=True):
    """The desired state of a Job. The template stays raw, as in ``ReplicaSetSpec``."""

    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    selector: LabelSelector | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")
    ttl_seconds_after_finished: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None


class JobCondition(View, frozen=True):
    type: str = ""
    status: str = ""
    last_probe_time: datetime.datetime | None = None
    last_transition_time: datetime.datetime | None = None
    reason: str = ""
    message: str = ""


class UncountedTerminatedPods(View, frozen=True):
    """UIDs of terminated pods that are not in the counters yet, and may have lost their finalizer."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(View, frozen=True):
    conditions: tuple[JobCondition, ...] = ()
    start_time: datetime.datetime | None = None
    completion_time: datetime.datetime | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: int | None = None


class Job(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


JOBS = Kind("batch", "v1", "jobs", "Job", True, Job)


class JobTemplateMeta(View, frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class JobTemplate(View, frozen=True):
    metadata: JobTemplateMeta = JobTemplateMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class CronJobSpec(View, frozen=True):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool | None = None
    job_template: JobTemplate = JobTemplate()
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(View, frozen=True):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: datetime.datetime | None = None
    last_successful_time: datetime.datetime | None = None


class CronJob(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


CRON_JOBS = Kind("batch", "v1", "cronjobs", "CronJob", True, CronJob)
