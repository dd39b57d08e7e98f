"""How good a node is for even spreading: the soft constraints of a pod, or the cluster's defaults.

Facts: kube-scheduler v1.36 ``pkg/scheduler/framework/plugins/podtopologyspread/scoring.go`` and ``plugin.go``
(``systemDefaultConstraints``): three more on one node than on another, five in one zone, as a preference.
"""

import math
import operator
from collections.abc import Mapping, Sequence

from pilothouse.machinery.labels import Selector
from pilothouse.scheduler.scores import MAX_SCORE
from pilothouse.scheduler.snapshot import ZONE, Snapshot
from pilothouse.scheduler.wish import Spread, Wish

HOSTNAME = "kubernetes.io/hostname"
_DEFAULTS = ((3, HOSTNAME), (5, ZONE))


def default_spread(selector: Selector | None) -> tuple[Spread, ...]:
    """The cluster's constraints for pods that ``selector`` finds; none for pods that nothing selects."""
    if selector is None or selector.empty:
        return ()
    return tuple(Spread(max_skew, key, selector) for max_skew, key in _DEFAULTS)


def spread_scores(
    snapshot: Snapshot, wish: Wish, spreads: Sequence[Spread], found: Sequence[int], *, defaults: bool
) -> list[int] | None:
    """0 to 100 for nodes by position, highest where fewest of the like are; None when all are equal.

    Counts weigh the logarithm of the number of domains, so that zones are not drowned out by nodes. With the pod's own
    constraints a node must have every label to count at all; with the ``defaults`` each label counts where it is.
    """
    required = () if defaults else tuple(spread.topology_key for spread in spreads)
    judged = found
    for key in required:
        column = snapshot.column(key)
        judged = [i for i in judged if column[i] is not None]
    if not judged:
        return None
    raw = [0.0] * len(judged)
    for spread in spreads:
        tally = snapshot.tallies.get(((frozenset((wish.namespace,)), spread.selector),), leaving=False)
        column = snapshot.column(spread.topology_key)
        values = [column[i] for i in judged]
        domains = len(judged) if spread.topology_key == HOSTNAME else len(set(values))
        weight, extra = math.log(domains + 2), float(spread.max_skew - 1)
        if spread.topology_key == HOSTNAME:
            _add_hosts(raw, snapshot, judged, values, tally.by_node, weight, extra)
        else:
            name, topology = snapshot.spread_topology(
                spread.topology_key, required, wish, affinity=spread.honors_affinity, taints=spread.honors_taints
            )
            counts = tally.per_value(name, topology).counts
            # A node without the label gets nothing, but has counted as one more domain, as upstream.
            scores = {v: counts.get(v, 0) * weight + extra if v is not None else 0.0 for v in set(values)}
            raw = list(map(operator.add, raw, [scores[v] for v in values]))
    return _normalized(raw, judged, found)


def _add_hosts(
    raw: list[float],
    snapshot: Snapshot,
    judged: Sequence[int],
    names: Sequence[str | None],
    by_node: Mapping[str, int],
    weight: float,
    extra: float,
) -> None:
    """One domain per node. Few of them have pods that count, so only those are looked up."""
    if None in names:
        raw[:] = [score + extra if name is not None else score for score, name in zip(raw, names, strict=True)]
    else:
        raw[:] = [score + extra for score in raw]
    if by_node:
        position_of = dict(zip(judged, range(len(judged)), strict=True))
        for node_name, count in by_node.items():
            info = snapshot.nodes.get(node_name)
            position = position_of.get(info.index) if info is not None else None
            if position is not None and names[position] is not None:
                raw[position] += count * weight


def _normalized(raw: Sequence[float], judged: Sequence[int], found: Sequence[int]) -> list[int] | None:
    # ``math.Round``: no score is negative. There are few different scores, however many nodes.
    rounded = {score: int(score + 0.5) for score in set(raw)}
    lowest, highest = min(rounded.values()), max(rounded.values())
    if lowest == highest and len(judged) == len(found):
        return None
    final = {
        score: MAX_SCORE * (highest + lowest - whole) // highest if highest else MAX_SCORE
        for score, whole in rounded.items()
    }
    if len(judged) == len(found):
        return [final[score] for score in raw]
    scores = {index: final[score] for index, score in zip(judged, raw, strict=True)}
    return [scores.get(index, 0) for index in found]
