"""Runs one pod of a DaemonSet on every eligible node, replaces the pods when the template changes, keeps the
history of templates, and updates the status.

Behaviour: a node has a pod if its name, labels and taints allow it, and at most one that lives (during a surge one old
and one new). One sync creates and deletes at most 250 pods each, creates carefully at first (1, 2, 4, …), and does
nothing before the caches have shown what earlier syncs did. A rolling update never has more than maxUnavailable pods
missing by its own doing, or more than maxSurge nodes with two. Every template that pods were made from is kept as a
ControllerRevision while a pod carries it. What a change costs follows the change: a pod or a node that changes is
processed, not all 5,000.

Not guaranteed: that the pod fits on its node (the scheduler finds out), or an order of nodes.

docs/controllers/daemonset.md has what enqueues it and where it differs from upstream.
"""

import msgspec

from pilothouse.api.apps import CONTROLLER_REVISIONS, DAEMON_SETS
from pilothouse.api.core import NODES, PODS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class DaemonSetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set. The last two are upstream's gates ``StaleControllerConsistencyDaemonSet``, on in v1.36, and
    ``TaintTolerationComparisonOperators``, off."""

    workers: int = 2
    """So many on the queue of DaemonSets, and as many on that of nodes that have changed."""
    burst: int = 250
    """At most so many creates, and so many deletes, in one sync. Not a flag, as upstream."""
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
