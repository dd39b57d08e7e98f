"""Maintains the status of ResourceQuotas: the enforced limits, and how much of each is used.

Behaviour: a quota's ``status.hard`` follows its ``spec.hard``, and ``status.used`` what is in the caches, as the
evaluators of admission count it, when the limits change, when something that a limit is about goes or uses less, and
every ``--resource-quota-sync-period``. What is created is charged by admission at once; this controller gives back, and
puts right: what admission has let in before it knew a new limit is counted when it is seen. What cannot be counted now
keeps its old number. Nothing is written when nothing is different.

Not guaranteed: that ``used`` is never too high. What goes is given back when its deletion has been seen.

docs/controllers/resourcequota.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import DURATION, INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class ResourceQuotaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set. The last is upstream's gate ``PodLevelResources``, on in v1.36."""

    sync_period: float = 300.0
    concurrent_syncs: int = 5
    pod_level_resources: bool = True


DESCRIPTOR = Descriptor(
    name="resourcequota-controller",
    aliases=("resourcequota",),
    client_name="resourcequota-controller",
    options=ResourceQuotaOptions,
    gate_fields=(GateSpec(field="pod_level_resources", gate="PodLevelResources"),),
    flags=(
        flag_spec(
            "sync_period",
            "resource-quota-sync-period",
            DURATION,
            300.0,
            "The period for syncing quota usage status in the system",
        ),
        flag_spec(
            "concurrent_syncs",
            "concurrent-resource-quota-syncs",
            INT32,
            5,
            "The number of resource quotas that are allowed to sync concurrently.",
        ),
    ),
    watches=(
        Watch(kind=RESOURCE_QUOTAS, keep_raw=True, predicate=any_object),
        Watch(kind=PODS),
        Watch(kind=SERVICES),
        Watch(kind=PERSISTENT_VOLUME_CLAIMS),
    ),
    watches_discovered=True,
    package=__name__,
)
