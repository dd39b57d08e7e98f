"""The index of pods by node, shared by the controllers that add it."""

from pilothouse.api.core import Pod

NODE_INDEX = "spec.nodeName"
"""Pods by the name of the node that they are bound to, which need not exist."""


def index_by_node(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
