"""Finding the pods of a node in a cache: one index that every controller which asks so shares."""

from pilothouse.api.core import Pod

NODE_INDEX = "spec.nodeName"
"""Pods by the name of the node that they are bound to, whether or not there is such a node."""


def index_by_node(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
