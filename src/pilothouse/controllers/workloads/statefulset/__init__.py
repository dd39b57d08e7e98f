"""Runs the pods of a StatefulSet with stable names and claims, creates and updates them in order, keeps the
history of templates, and updates the status.

Behaviour: a pod has the name, labels, hostname and claims of its ordinal, and there is never a second pod with that
name. With OrderedReady a pod is created when all before it are available, and an excess pod is deleted when all
remaining ones are, one at a time; with Parallel all at once. An update replaces pods from the highest ordinal down to
the partition, one at a time (or as many as maxUnavailable allows, with upstream's gate). A pod below the partition is
created again from the current revision. Claims are created before their pod; the retention policy determines whether
they are kept or garbage collected. Every template of an existing pod is kept as a ControllerRevision. Nothing is
decided before the caches have the writes of earlier syncs.

Not guaranteed: that an OrderedReady update continues if a pod never becomes ready (it must be deleted manually, as
upstream), or that no two *processes* of one pod name run, if a pod is force-deleted from a node that is still running.

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
    """The options. The last three are upstream's gates ``MaxUnavailableStatefulSet`` (off in v1.36),
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
