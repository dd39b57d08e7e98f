"""The cases of k8s.io/cloud-provider v0.36 ``controllers/route/route_controller_test.go``, and where each of them
is."""

from tests.controllers.upstream_coverage import NOT, Cases

_PLAN, _SAYS = "test_reconcile", "test_network_unavailable_condition_is_current"

COVERED: Cases = {
    "TestIsResponsibleForRoute": "test_is_responsible_for_route",
    "TestReconcile: routes have no TargetNodeAddresses at the beginning": _PLAN,
    "TestReconcile: routes' TargetNodeAddresses changed": _PLAN,
    "TestReconcile: multicidr 2 nodes and no routes": _PLAN,
    "TestReconcile: multicidr 2 nodes and all routes created": _PLAN,
    "TestReconcile: multicidr 2 nodes and few wrong routes": _PLAN,
    "TestReconcile: multicidr 2 nodes and some routes created": _PLAN,
    "TestReconcile: multicidr 2 nodes and too many routes": _PLAN,
    "TestReconcile: single cidr 2 nodes and routes created": _PLAN,
    "TestReconcile: single cidr node ips changed so routes should be updated": _PLAN,
    "TestReconcile: single cidr 2 nodes and one route created": _PLAN,
    "TestReconcile: single cidr 2 nodes and no routes": _PLAN,
    "TestReconcile: single cidr 2 nodes and too many routes": _PLAN,
    "TestReconcile: single cidr 2 nodes and 2 routes with 1 incorrect": _PLAN,
    "TestReconcile: single cidr 2 nodes and one node without cidr assigned": _PLAN,
    "TestReconcile: single cidr 2 nodes and an extra blackhole route in our range": _PLAN,
    "TestReconcile: single cidr 2 nodes and an extra blackhole route not in our range": _PLAN,
    "TestReconcile: duplicate pod cidr": NOT + "no API server takes a node with one range twice",
    "TestHandleNodeUpdate": NOT + "behind a gate of the cloud-controller-manager that is off",
    "TestUpdateNetworkingCondition": _SAYS,
    "TestUpdateNetworkingConditionWithCalicoScenario": _SAYS,
}
