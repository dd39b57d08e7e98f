"""Maintains the status of ResourceQuotas: the enforced limits, and how much of each is used.

Behaviour: ``status.hard`` follows ``spec.hard``, and ``status.used`` the caches, computed by admission's evaluators
when the limits change, when a counted object is deleted or uses less, and every ``--resource-quota-sync-period``.
Admission charges creations immediately; this controller releases usage and corrects it: objects that were admitted
before admission observed a new limit are counted here. Usage that cannot be computed keeps its old value. Nothing is
written if nothing changed.

Not guaranteed: that ``used`` is never too high. It is lowered when the deletion is observed.

docs/controllers/resourcequota.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import DURATION, INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class ResourceQuotaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options. The last one is upstream's gate ``PodLevelResources``, on in v1.36."""

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
