"""Creates Jobs on a schedule.

Behaviour: for one moment of a schedule one Job is made: its name is the CronJob's and the minute, and while it is there
the server makes no other. What was written down is waited for before the next sync, so that a Job that has come and
gone meanwhile is not made again. Of several moments that were missed only the last is made up for. With ``Forbid`` no
Job is started while one that is known of runs; with ``Replace`` what runs is deleted first. Finished Jobs go from
``status.active``, and beyond their limits altogether, the oldest first.

Not guaranteed: that every moment brings a Job. Whoever was away for too long, or a Job that takes too long under
``Forbid``, leaves moments out. A Job may be seen by nobody for a moment: it is made first and written down after that.

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
