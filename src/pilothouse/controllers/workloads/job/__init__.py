"""Runs pods until as many have succeeded as a Job asks for, and counts every one of them exactly once.

Promises: a pod of a Job carries a finalizer until it is counted. Its uid is written into the status first, then the
finalizer goes, then the uid becomes a number: whatever fails in between, nothing is lost and nothing counts twice.
No finalizer stays on a pod whose Job is gone or over. A Job is Complete or Failed only once no pod of it runs any
more, and then stays as it is. Nothing is made or removed before the caches have shown what earlier looks did. Of an
indexed Job at most one pod per index is made at a time.

Not promised: that a pod is never made twice. A node that dies, or a pod that is removed by hand, is replaced; programs
in Jobs must bear running again. Status follows changes of pods within a second, not at once.

Files: ``decide`` how a Job ends and which pods to make or remove, ``tracking`` what is counted and which finalizers go,
``indexes`` sets of indexes and what pods say of theirs, ``backoff`` how long to wait after failures,
``pod_failure_policy`` and ``success_policy`` the policies, ``status`` conditions, ``blueprint`` the pods to make,
``pod_events`` what wakes which key, ``orphans`` finalizers that nobody needs, ``controller`` the wiring.
docs/controllers/job.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.batch import JOBS
from pilothouse.api.core import PODS
from pilothouse.machinery.flags import INT32, Flag
from pilothouse.runtime.descriptor import Descriptor, FlagSpec, GateSpec, Watch, any_object

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of pods that have not been counted."""


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set. The last is upstream's gate ``StaleControllerConsistencyJob``, on in v1.36."""

    workers: int = 5
    wait_for_own_writes: bool = True


DESCRIPTOR = Descriptor(
    name="job-controller",
    aliases=("job",),
    client_name="job-controller",
    options=JobOptions,
    gate_fields=(GateSpec(field="wait_for_own_writes", gate="StaleControllerConsistencyJob"),),
    flags=(
        FlagSpec(
            field="workers",
            flag=Flag(
                "concurrent-job-syncs",
                INT32,
                5,
                "The number of job objects that are allowed to sync concurrently.",
            ),
        ),
    ),
    watches=(
        Watch(kind=JOBS, keep_raw=True, wakes=any_object),
        Watch(kind=PODS, indexes=("controller",), wakes=lambda pod: TRACKING in pod.metadata.finalizers),
    ),
    factory="pilothouse.controllers.workloads.job.controller:build",
)
