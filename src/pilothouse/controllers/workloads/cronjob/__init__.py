"""Creates Jobs on a schedule.

Behaviour: exactly one Job is created for a scheduled time: its name is that of the CronJob with the minute, so a second
create fails. A sync waits until the cache has the last written status, so that a Job that was created and deleted in
the meantime is not created again. If several times were missed, only the last one gets a Job. With ``Forbid`` no Job is
started while another one is active; with ``Replace`` active ones are deleted first. Finished Jobs are removed from
``status.active``, and deleted beyond the history limits, oldest first.

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
