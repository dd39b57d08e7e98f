"""Runs the pods of a Job until the required number has succeeded or the Job has failed, and counts every pod
exactly once.

Behaviour: a pod of a Job carries a finalizer until it is counted. Its uid is written into the status first, then the
finalizer goes, then the uid becomes a number: whatever fails in between, nothing is lost and nothing counts twice.
No finalizer stays on a pod whose Job is gone or over. A Job is Complete or Failed only once no pod of it runs any
more, and then stays as it is. Nothing is made or removed before the caches have shown what earlier syncs did. Of an
indexed Job at most one pod per index is made at a time.

Not guaranteed: that a pod is never made twice. A node that dies, or a pod that is removed by hand, is replaced;
programs in Jobs must bear running again. Status follows changes of pods within a second, not at once.

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
    """What can be set. The last two are upstream's gates ``StaleControllerConsistencyJob`` and
    ``MutableSchedulingDirectivesForSuspendedJobs``, on in v1.36."""

    workers: int = 5
    wait_for_own_writes: bool = True
    clear_start_time: bool = True
    """Whether a Job that is suspended loses its start time, so that the API server lets its template be changed."""


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
