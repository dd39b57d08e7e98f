"""The filters of one node, in their order: which the tests of single plugins do not cover."""

from tests.scheduler.build import filter_status, node, pod
from tests.tables import cases

from pilothouse.api.core import Node, Pod
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.plugins.node_name import NODE_NAME_NOT_MATCH
from pilothouse.scheduler.plugins.node_unschedulable import UNSCHEDULABLE


@cases(
    "wanted, node_pods, expected",
    {
        # nodename/node_name_test.go
        "no node name": (pod(), node(), None),
        "the node name": (pod(nodeName="n"), node(), None),
        "different node name": (pod(nodeName="other"), node(), NODE_NAME_NOT_MATCH),
        # nodeunschedulable/node_unschedulable_test.go
        "cordoned": (pod(), node(unschedulable=True), UNSCHEDULABLE),
        "NodeUnschedulable precedes NodeName": (pod(nodeName="x"), node(unschedulable=True), UNSCHEDULABLE),
        "cordoned and tolerated": (
            pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
            node(unschedulable=True),
            None,
        ),
    },
)
def test_node_name_and_unschedulable(wanted: Pod, node_pods: Node, expected: Status | None) -> None:
    assert filter_status(wanted, node_pods) == expected
