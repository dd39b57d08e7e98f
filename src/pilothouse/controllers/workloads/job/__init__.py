"""Runs the pods of a Job until the required number has succeeded or the Job has failed, and counts every pod
exactly once.

Behaviour: a pod of a Job has a finalizer until it is counted. First its uid is written into the status, then the
finalizer is removed, then the uid is replaced by a count: whatever fails in between, no pod is lost or counted twice.
No pod keeps the finalizer if its Job is deleted or finished. A Job becomes Complete or Failed when none of its pods
runs any more, and then does not change. No pod is created or deleted before the caches have the writes of earlier
syncs. An Indexed Job has at most one active pod per index.

Not guaranteed: that a program runs only once. If a node fails or a pod is deleted manually, the pod is replaced. The
status follows changes of pods within a second, not immediately.

docs/controllers/job.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.batch import JOBS
from pilothouse.api.core import PODS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of pods that have not been counted."""


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options. The last two are upstream's gates ``StaleControllerConsistencyJob`` and
    ``MutableSchedulingDirectivesForSuspendedJobs``, on in v1.36."""

    workers: int = 5
    wait_for_own_writes: bool = True
    clear_start_time: bool = True
    """Whether the start time of a suspended Job is removed, so that the API server allows changes of its template."""


DESCRIPTOR = Descriptor(
    name="job-controller",
    aliases=("job",),
    client_name="job-controller",
    unsupported_gates=("WorkloadWithJob",),
    options=JobOptions,
    gate_fields=(
        GateSpec(field="wait_for_own_writes", gate="StaleControllerConsistencyJob"),
        GateSpec(field="clear_start_time", gate="MutableSchedulingDirectivesForSuspendedJobs"),
    ),
    flags=(
        flag_spec(
            "workers",
            "concurrent-job-syncs",
            INT32,
            5,
            "The number of job objects that are allowed to sync concurrently.",
        ),
    ),
    watches=(
        Watch(kind=JOBS, keep_raw=True, predicate=any_object),
        Watch(kind=PODS, predicate=lambda pod: TRACKING in pod.metadata.finalizers),
    ),
    package=__name__,
)
