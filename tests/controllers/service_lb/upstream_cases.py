"""The cases of k8s.io/cloud-provider v0.36 ``controllers/service/controller_test.go``, and where each of them is."""

from tests.controllers.upstream_coverage import NOT, Cases

_LIFE, _NO_MORE = (
    "test_a_service_gets_an_address_and_loses_it",
    "test_a_service_that_wants_none_any_more_loses_it_and_stays",
)
_NODES, _MATTER = "test_nodes_that_come_and_go_are_told", "test_which_changes_of_nodes_matter"
_MADE_GOOD = "test_an_update_of_nodes_that_fails_is_told_and_made_good"
_NOBODY, _WRITES = "test_what_concerns_nobody_is_left_alone", "test_writes_that_fail_leave_nothing_behind"
_EACH = "test_each_load_balancer_is_told_and_no_other_service"
_ADDRESSES = "test_addresses_are_written_as_they_are"

COVERED: Cases = {
    "TestSyncLoadBalancerIfNeeded: service doesn't want LB": _NOBODY,
    "TestSyncLoadBalancerIfNeeded: udp service that wants LB": _EACH,
    "TestSyncLoadBalancerIfNeeded: tcp service that wants LB": _LIFE,
    "TestSyncLoadBalancerIfNeeded: sctp service that wants LB": _EACH,
    "TestSyncLoadBalancerIfNeeded: service specifies loadBalancerClass": _NOBODY,
    "TestSyncLoadBalancerIfNeeded: service with finalizer that no longer wants LB": _NO_MORE,
    "TestSyncLoadBalancerIfNeeded: service that needs cleanup": _LIFE,
    "TestSyncLoadBalancerIfNeeded: service with finalizer that wants LB": _WRITES,
    "TestUpdateNodesInExternalLoadBalancer: no services, or none with a load balancer": _NOBODY,
    "TestUpdateNodesInExternalLoadBalancer: one, three, two of four": _EACH,
    "TestUpdateNodesInExternalLoadBalancer: four services with only 2 workers": _EACH,
    "TestNodeChangesForStableNodeSetEnabled: No node changes": "test_nodes_are_compared_by_name_and_machine",
    "TestNodeChangesForStableNodeSetEnabled: 1 new node gets added": _NODES,
    "TestNodeChangesForStableNodeSetEnabled: 1 new node gets added - with retries": _MADE_GOOD,
    "TestNodeChangesForStableNodeSetEnabled: 1 node goes NotReady": _NODES,
    "TestNodeChangesForStableNodeSetEnabled: 1 node gets Tainted": "test_which_nodes_serve",
    "TestNodeChangesForStableNodeSetEnabled: 1 node goes Ready": "test_which_nodes_serve",
    "TestNodeChangesForStableNodeSetEnabled: 1 node get excluded": _NODES,
    "TestNodeChangesForStableNodeSetEnabled: 1 old node gets deleted": _NODES,
    "TestNodeChangesForStableNodeSetEnabled: 1 node marked for deletion": "test_which_nodes_serve",
    "TestNodeChangesForStableNodeSetEnabled: 1 spurious node update": _MATTER,
    "TestNodeChangesInExternalLoadBalancer: 1, 2, 4 nodes": _NODES,
    "TestNodeChangesInExternalLoadBalancer: error occur during sync": _MADE_GOOD,
    "TestNodesNotEqual": "test_nodes_are_compared_by_name_and_machine",
    "TestProcessServiceCreateOrUpdate": "test_changes_are_passed_on",
    "TestProcessServiceCreateOrUpdateK8sError: conflict error": _WRITES,
    "TestProcessServiceCreateOrUpdateK8sError: not found error": _WRITES,
    "TestSyncService: if an invalid service name is synced": NOT + "keys come from objects here",
    "TestSyncService: if an invalid service is synced": _NOBODY,
    "TestSyncService: if valid service": _LIFE,
    "TestProcessServiceDeletion: non-existent": "test_an_old_cache_makes_no_load_balancer_for_a_service_that_is_gone",
    "TestProcessServiceDeletion: cloud failed": "test_a_load_balancer_that_cannot_be_deleted_keeps_its_service",
    "TestProcessServiceDeletion: successful": _LIFE,
    "TestNeedsCleanup": "test_which_services_need_cleaning_up",
    "TestSlowNodeSync": "test_nodes_that_come_while_the_cloud_is_at_work_are_not_forgotten",
    "TestNeedsUpdate": "test_which_changes_the_cloud_must_hear_of",
    "TestServiceCache": NOT + "a type of upstream's; what is remembered here is seen in what is asked of the cloud",
    "TestAddFinalizer": _LIFE,
    "TestRemoveFinalizer": "test_other_finalizers_stay",
    "TestPatchStatus: add status": _ADDRESSES,
    "TestPatchStatus: clear status": _NO_MORE,
    "TestPatchStatus: no-op": "test_changes_are_passed_on",
    "Test_respectsPredicates": "test_which_nodes_serve",
    "TestListWithPredicate": "test_which_nodes_serve",
    "Test_shouldSyncUpdatedNode_individualPredicates": _MATTER,
    "Test_shouldSyncUpdatedNode_compoundedPredicates": "test_what_else_a_node_is_changes_nothing",
    "TestServiceQueueDelay: processing successful": _LIFE,
    "TestServiceQueueDelay: regular error": "test_a_cloud_that_fails_is_asked_again_more_and_more_seldom",
    "TestServiceQueueDelay: retry error": "test_a_cloud_says_itself_when_to_ask_again",
}
