"""Deletes Jobs and their pods ``spec.ttlSecondsAfterFinished`` seconds after they have finished. Jobs without
that field stay.

Behaviour: a Job is deleted only if a live read shows that it has finished and that its TTL has passed, with its uid as
precondition, and in the foreground, so that its pods are deleted first. Changes of the TTL before the deletion take
effect.

Not guaranteed: the exact time. It depends on the clock of the manager that finished the Job, and on this one's.

Files: ``decide`` when a Job is due, ``controller`` the wiring. docs/controllers/ttl_after_finished.md has where it
differs from upstream.
"""

import msgspec

from pilothouse.api.batch import JOBS
from pilothouse.machinery.flags import INT32, Flag
from pilothouse.runtime.descriptor import Descriptor, FlagSpec
from pilothouse.runtime.watches import Watch


class TTLAfterFinishedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options."""

    workers: int = 5


DESCRIPTOR = Descriptor(
    name="ttl-after-finished-controller",
    aliases=("ttl-after-finished",),
    client_name="ttl-after-finished-controller",
    options=TTLAfterFinishedOptions,
    flags=(
        FlagSpec(
            field="workers",
            flag=Flag(
                "concurrent-ttl-after-finished-syncs",
                INT32,
                5,
                "The number of ttl-after-finished-controller workers that are allowed to sync concurrently.",
            ),
        ),
    ),
    watches=(Watch(kind=JOBS, predicate=lambda job: job.spec.ttl_seconds_after_finished is not None),),
    package=__name__,
)
