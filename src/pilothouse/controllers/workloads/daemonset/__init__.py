"""Runs one pod of a DaemonSet on every eligible node, replaces the pods when the template changes, keeps the
history of templates, and updates the status.

Behaviour: a node gets a pod if its name, labels and taints allow it, and at most one active one (during a surge one old
and one new). A sync creates and deletes at most 250 pods each, creates in growing batches (1, 2, 4, …), and does
nothing before the caches have the writes of earlier syncs. A rolling update never makes more than maxUnavailable pods
unavailable, and never more than maxSurge nodes have two. Every template of an existing pod is kept as a
ControllerRevision. The cost of an event is that of the changed pod or node, not that of all 5,000.

Not guaranteed: that the pod fits on its node (the scheduler finds out), or an order of nodes.

docs/controllers/daemonset.md has the triggers and the differences from upstream.
"""

import msgspec

from pilothouse.api.apps import CONTROLLER_REVISIONS, DAEMON_SETS
from pilothouse.api.core import NODES, PODS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class DaemonSetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options. The last two are upstream's gates ``StaleControllerConsistencyDaemonSet``, on in v1.36, and
    ``TaintTolerationComparisonOperators``, off."""

    workers: int = 2
    """Workers of the queue of DaemonSets, and as many of the queue of changed nodes."""
    burst: int = 250
    """At most this many creates, and as many deletes, in one sync. Not a flag, as upstream."""
    wait_for_own_writes: bool = True
    comparison_operators: bool = False


DESCRIPTOR = Descriptor(
    name="daemonset-controller",
    aliases=("daemonset",),
    client_name="daemon-set-controller",
    options=DaemonSetOptions,
    gate_fields=(
        GateSpec(field="wait_for_own_writes", gate="StaleControllerConsistencyDaemonSet"),
        GateSpec(field="comparison_operators", gate="TaintTolerationComparisonOperators"),
    ),
    flags=(
        flag_spec(
            "workers",
            "concurrent-daemonset-syncs",
            INT32,
            2,
            "The number of daemonset objects that are allowed to sync concurrently. Larger number = more "
            "responsive daemonset, but more CPU (and network) load",
        ),
    ),
    watches=(
        Watch(kind=DAEMON_SETS, keep_raw=True, predicate=any_object),
        Watch(kind=CONTROLLER_REVISIONS, keep_raw=True),
        Watch(kind=PODS),
        Watch(kind=NODES),
    ),
    package=__name__,
)
