"""Orphan pods with the finalizer: their Job was deleted or is finished, or they have no controller. Pure.

Upstream: v1.36 ``pkg/controller/job/job_controller.go`` (``syncOrphanPod``).
"""

from pilothouse.api.batch import JOBS, Job
from pilothouse.api.core import Pod
from pilothouse.api.meta import OwnerReference
from pilothouse.controllers.workloads.job import TRACKING
from pilothouse.machinery.owners import controller_of
from pilothouse.semantics.jobs import is_finished

OURSELVES = "kubernetes.io/job-controller"


def is_external(job: Job) -> bool:
    """Whether the Job is managed by another controller."""
    return job.spec.managed_by not in (None, OURSELVES)


def is_of_a_job(reference: OwnerReference) -> bool:
    """Whether the owner is a Job of ``batch/v1``, of whatever name."""
    return reference.kind == JOBS.kind and reference.api_version == "batch/v1"


def may_be_released(pod: Pod, job: Job | None) -> bool:
    """Whether to remove the finalizer. ``job`` is the Job with the name of the pod's controller, if it exists. A pod
    with an owner of another kind keeps it: that owner may use it for itself (kubernetes#124798)."""
    if TRACKING not in pod.metadata.finalizers:
        return False
    reference = controller_of(pod.metadata)
    if reference is None:
        return True
    if not is_of_a_job(reference):
        return False
    if job is None or job.metadata.uid != reference.uid:
        return True
    return not is_external(job) and is_finished(job)
