"""Deletes pods from nodes whose ``NoExecute`` taints they do not tolerate, or no longer tolerate.

Behaviour: a pod that does not tolerate a taint is deleted at once, with its own grace period. One that tolerates all of
them for a time is deleted when the shortest of these times is over, unless the taint goes before that. A later change
does not move a deletion that is set; it calls it off or makes it immediate. Nothing is deleted because of a taint that
is gone: pod and node are read live first. A pod that was made anew under the name of another has its own time. A
deletion that fails is tried again until it succeeds or is no longer wanted.

Not guaranteed: to spare anybody. DaemonSet pods and static pods stay because they tolerate, for no other reason.

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
