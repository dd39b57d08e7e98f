"""Finalizers that nobody needs: of pods whose Job is gone or over, or that belong to no Job. Pure.

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
    """Whether some other program looks after this Job."""
    return job.spec.managed_by not in (None, OURSELVES)


def is_of_a_job(reference: OwnerReference) -> bool:
    """Whether the owner is a Job of ``batch/v1``, of whatever name."""
    return reference.kind == JOBS.kind and reference.api_version == "batch/v1"


def may_be_released(pod: Pod, job: Job | None) -> bool:
    """Whether the finalizer is to go. ``job`` is the Job of the name that the pod's controller has, if there is one.

    A pod that has been given to another kind of owner is left alone: that owner may use the finalizer for itself
    (kubernetes#124798).
    """
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
