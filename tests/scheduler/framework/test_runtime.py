"""The filters of one node, in their order: what the tests of single plugins do not show."""

import pytest
from tests.scheduler.build import filter_status, node, pod

from pilothouse.api.core import Node, Pod
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.plugins.node_name import NODE_NAME_NOT_MATCH
from pilothouse.scheduler.plugins.node_unschedulable import UNSCHEDULABLE


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        # nodename/node_name_test.go
        pytest.param(pod(), node(), None, id="no node name"),
        pytest.param(pod(nodeName="n"), node(), None, id="the node name"),
        pytest.param(pod(nodeName="other"), node(), NODE_NAME_NOT_MATCH, id="another node name"),
        # nodeunschedulable/node_unschedulable_test.go
        pytest.param(pod(), node(unschedulable=True), UNSCHEDULABLE, id="cordoned"),
        pytest.param(
            pod(nodeName="x"), node(unschedulable=True), UNSCHEDULABLE, id="NodeUnschedulable comes before NodeName"
        ),
        pytest.param(
            pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
            node(unschedulable=True),
            None,
            id="cordoned and tolerated",
        ),
    ],
)
def test_node_name_and_unschedulable(wanted: Pod, there: Node, expected: Status | None) -> None:
    assert filter_status(wanted, there) == expected
