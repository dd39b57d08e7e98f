"""Creates Jobs on a schedule.

Behaviour: for one scheduled time one Job is created: its name is the CronJob's and the minute, and while it exists the
server accepts no other. A sync waits until the cache shows the last status written, so that a Job that was created and
deleted meanwhile is not created again. Of several missed times only the last gets a Job. With ``Forbid`` no Job is
started while another one is active; with ``Replace`` active ones are deleted first. Finished Jobs are removed from
``status.active``, and deleted beyond their limits, the oldest first.

Not guaranteed: a Job for every scheduled time. Times are missed while the controller is down, or a Job takes too long
under ``Forbid``. A Job is created before it is in the status.

docs/controllers/cronjob.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.batch import CRON_JOBS, JOBS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object


class CronJobOptions(msgspec.Struct, frozen=True, kw_only=True):
    workers: int = 5


DESCRIPTOR = Descriptor(
    name="cronjob-controller",
    aliases=("cronjob",),
    client_name="cronjob-controller",
    options=CronJobOptions,
    flags=(
        flag_spec(
            "workers",
            "concurrent-cron-job-syncs",
            INT32,
            5,
            "The number of cron job objects that are allowed to sync concurrently.",
        ),
    ),
    watches=(Watch(kind=CRON_JOBS, keep_raw=True, predicate=any_object), Watch(kind=JOBS)),
    package=__name__,
)
