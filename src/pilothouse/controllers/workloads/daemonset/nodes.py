"""The nodes as far as they matter to daemon pods: names, labels and taints.

A node keeps its object here until one of these changes, so that results for it can be recognised by identity.
"""

from pilothouse.api.core import Node, NodeSpec
from pilothouse.api.meta import ObjectMeta


class NodeTable:
    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def get(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._nodes)

    def put(self, node: Node) -> bool:
        """The node was added or changed. Whether anything that matters here did."""
        name = node.metadata.name
        old = self._nodes.get(name)
        if (
            old is not None
            and old.metadata.labels == node.metadata.labels
            and old.spec.taints == node.spec.taints
            and old.metadata.uid == node.metadata.uid
        ):
            return False
        self._nodes[name] = Node(
            metadata=ObjectMeta(name=name, uid=node.metadata.uid, labels=node.metadata.labels),
            spec=NodeSpec(taints=node.spec.taints),
        )
        return True

    def drop(self, name: str) -> None:
        self._nodes.pop(name, None)
