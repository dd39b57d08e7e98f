"""Why a node does not do for a pod, and the sentence that tells a user. Pure.

Texts, order and what preemption can help with: kube-scheduler v1.36 ``pkg/scheduler/framework/plugins`` and
``pkg/scheduler/framework/types.go`` (``FitError.Error``).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec


class Refusal(msgspec.Struct, frozen=True):
    """What one filter says against a node. ``final``: fewer pods on the node would not help."""

    plugin: str
    reasons: tuple[str, ...]
    final: bool = False


CORDONED = Refusal("NodeUnschedulable", ("node(s) were unschedulable",), final=True)
OTHER_NAME = Refusal("NodeName", ("node(s) didn't match the requested node name",), final=True)
TAINTED = Refusal("TaintToleration", ("node(s) had untolerated taint(s)",), final=True)
NOT_SELECTED = Refusal("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), final=True)
NOT_NAMED = Refusal("NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), final=True)
PORTS_TAKEN = Refusal("NodePorts", ("node(s) didn't have free ports for the requested pod ports",))
UNEVEN = Refusal("PodTopologySpread", ("node(s) didn't match pod topology spread constraints",))
NO_DOMAIN = Refusal(
    "PodTopologySpread", ("node(s) didn't match pod topology spread constraints (missing required label)",), final=True
)
NOT_NEAR = Refusal("InterPodAffinity", ("node(s) didn't match pod affinity rules",), final=True)
NOT_FAR = Refusal("InterPodAffinity", ("node(s) didn't match pod anti-affinity rules",))
REPELLED = Refusal("InterPodAffinity", ("node(s) didn't satisfy existing pods anti-affinity rules",))
NO_VICTIMS = Refusal("DefaultPreemption", ("No preemption victims found for incoming pod",), final=True)
NOT_HELPFUL = Refusal("DefaultPreemption", ("Preemption is not helpful for scheduling",), final=True)
CONTRADICTION = "pod affinity terms conflict"
NO_NODES = "no nodes available to schedule pods"


@lru_cache(maxsize=1024)
def too_little(reasons: tuple[str, ...], final: bool) -> Refusal:
    """Resources that are short. Final when even the empty node has too little."""
    return Refusal("NodeResourcesFit", reasons, final)


def explain(nodes: int, counts: Mapping[Refusal, int], *, before: str = "", after: str = "") -> str:
    """The message of FailedScheduling.

    ``0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: …``. ``before`` is what was
    wrong before any node was looked at, and then all that is said about them; ``after`` is what came of preemption.
    """
    text = f"0/{nodes} nodes are available:"
    if before:
        text += f" {before}."
    else:
        reasons: dict[str, int] = {}
        for refusal, count in counts.items():
            for reason in refusal.reasons:
                reasons[reason] = reasons.get(reason, 0) + count
        if reasons:
            text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in reasons.items()))}."
    return f"{text} {after}" if after else text


def tally(refusals: Iterable[Refusal]) -> dict[Refusal, int]:
    """How many nodes each refusal is about."""
    counts: dict[Refusal, int] = {}
    for refusal in refusals:
        counts[refusal] = counts.get(refusal, 0) + 1
    return counts
