"""``Status``: the result of a filter for one node. The statuses themselves are constants of the plugins."""

import msgspec


class Status(msgspec.Struct, frozen=True):
    """Why a plugin rejects a node. Instead of upstream's status ``Success`` there is ``None``.

    ``unresolvable`` is upstream's ``UnschedulableAndUnresolvable``: preemption on the node cannot help.
    """

    plugin: str
    reasons: tuple[str, ...]
    unresolvable: bool = False


NODE_NOT_IN_PRE_FILTER_RESULT = Status(
    "NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), unresolvable=True
)
"""For the nodes that the pod's node affinity excludes by name; no filter runs for them."""
