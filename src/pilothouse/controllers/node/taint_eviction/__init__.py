"""Deletes pods from nodes whose ``NoExecute`` taints they do not tolerate, or no longer tolerate.

Behaviour: a pod that does not tolerate a taint is deleted immediately, with its own grace period. One that tolerates
all of them for some time is deleted after the shortest of these times, unless the taint is removed before. A later
change does not postpone a scheduled deletion; it cancels it or makes it immediate. Before a deletion pod and node are
read live, so that nothing is deleted because of a taint that was removed. A pod that was created again with the same
name has its own time. A failed deletion is retried until it succeeds or is no longer necessary.

Not guaranteed: exceptions for any pods. DaemonSet pods and static pods are only kept because of their tolerations.

docs/controllers/taint_eviction.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import NODES, PODS
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class TaintEvictionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The last is upstream's gate ``TaintTolerationComparisonOperators``, off in v1.36."""

    workers: int = 16
    """Concurrent deletions. Not a flag, as upstream."""
    comparison_operators: bool = False


DESCRIPTOR = Descriptor(
    name="taint-eviction-controller",
    client_name="node-controller",
    gates=("SeparateTaintEvictionController",),
    gate_fields=(GateSpec(field="comparison_operators", gate="TaintTolerationComparisonOperators"),),
    options=TaintEvictionOptions,
    watches=(Watch(kind=PODS, predicate=any_object), Watch(kind=NODES)),
    package=__name__,
)
