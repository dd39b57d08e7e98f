"""Runs the pods of a StatefulSet with stable names and claims, creates and updates them in order, keeps the
history of templates, and updates the status.

Behaviour: a pod has the name, labels, hostname and claims of its ordinal, and there is never a second one of that name.
With ordered management a pod is made only when all before it are available, one that is too many is deleted only when
all that stay are, and one at a time; with parallel management all at once. An update replaces pods from the highest
ordinal down to the partition, one after the other (or as many as maxUnavailable allows, behind upstream's gate). A pod
below the partition comes back as it was. Claims are made before their pod and are kept, or handed to the garbage
collector, as the retention policy says. Every template that pods were made from is kept as a ControllerRevision while a
pod carries it. Nothing is decided before the caches have shown what earlier syncs wrote.

Not guaranteed: that an update gets past a pod that never becomes ready under ordered management (it must be deleted by
hand, as upstream), or that no two *processes* of one name run when a pod is deleted by force from a node that is still
alive.

docs/controllers/statefulset.md lists its triggers and its differences from upstream.
"""

import msgspec

from pilothouse.api.apps import CONTROLLER_REVISIONS, STATEFUL_SETS
from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class StatefulSetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set. The last three are upstream's gates ``MaxUnavailableStatefulSet`` (off in v1.36),
    ``StatefulSetSemanticRevisionComparison`` and ``StaleControllerConsistencyStatefulSet`` (both on)."""

    workers: int = 5
    use_max_unavailable: bool = False
    compare_by_meaning: bool = True
    wait_for_own_writes: bool = True


DESCRIPTOR = Descriptor(
    name="statefulset-controller",
    aliases=("statefulset",),
    client_name="statefulset-controller",
    options=StatefulSetOptions,
    gate_fields=(
        GateSpec(field="use_max_unavailable", gate="MaxUnavailableStatefulSet"),
        GateSpec(field="compare_by_meaning", gate="StatefulSetSemanticRevisionComparison"),
        GateSpec(field="wait_for_own_writes", gate="StaleControllerConsistencyStatefulSet"),
    ),
    flags=(
        flag_spec(
            "workers",
            "concurrent-statefulset-syncs",
            INT32,
            5,
            "The number of statefulset objects that are allowed to sync concurrently. Larger number = more "
            "responsive statefulsets, but more CPU (and network) load",
        ),
    ),
    watches=(
        Watch(kind=STATEFUL_SETS, keep_raw=True, predicate=any_object),
        Watch(kind=CONTROLLER_REVISIONS, keep_raw=True),
        Watch(kind=PODS),
        Watch(kind=PERSISTENT_VOLUME_CLAIMS, keep_raw=True),
    ),
    package=__name__,
)
