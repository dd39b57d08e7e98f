"""The cases of k8s.io/cloud-provider v0.36 ``controllers/service/controller_test.go``, and where each of them is."""

from tests.controllers.upstream_coverage import NOT, Cases

_LIFE, _NO_MORE = (
    "test_load_balancer_is_created_and_deleted",
    "test_changed_service_type_deletes_the_load_balancer",
)
_NODES, _MATTER = "test_node_changes_update_load_balancers", "test_node_updates_that_enqueue"
_MADE_GOOD = "test_failed_node_update_emits_an_event_and_is_retried"
_NOBODY, _WRITES = "test_services_of_other_types_and_classes_are_ignored", "test_failed_writes_leave_no_load_balancer"
_EACH = "test_node_changes_update_only_load_balancer_services"
_ADDRESSES = "test_load_balancer_status_keeps_addresses"

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
    "TestNodeChangesForStableNodeSetEnabled: No node changes": "test_nodes_are_compared_by_name_and_provider_id",
    "TestNodeChangesForStableNodeSetEnabled: 1 new node gets added": _NODES,
    "TestNodeChangesForStableNodeSetEnabled: 1 new node gets added - with retries": _MADE_GOOD,
    "TestNodeChangesForStableNodeSetEnabled: 1 node goes NotReady": _NODES,
    "TestNodeChangesForStableNodeSetEnabled: 1 node gets Tainted": "test_node_predicates",
    "TestNodeChangesForStableNodeSetEnabled: 1 node goes Ready": "test_node_predicates",
    "TestNodeChangesForStableNodeSetEnabled: 1 node get excluded": _NODES,
    "TestNodeChangesForStableNodeSetEnabled: 1 old node gets deleted": _NODES,
    "TestNodeChangesForStableNodeSetEnabled: 1 node marked for deletion": "test_node_predicates",
    "TestNodeChangesForStableNodeSetEnabled: 1 spurious node update": _MATTER,
    "TestNodeChangesInExternalLoadBalancer: 1, 2, 4 nodes": _NODES,
    "TestNodeChangesInExternalLoadBalancer: error occur during sync": _MADE_GOOD,
    "TestNodesNotEqual": "test_nodes_are_compared_by_name_and_provider_id",
    "TestProcessServiceCreateOrUpdate": "test_service_updates_are_sent_to_the_cloud",
    "TestProcessServiceCreateOrUpdateK8sError: conflict error": _WRITES,
    "TestProcessServiceCreateOrUpdateK8sError: not found error": _WRITES,
    "TestSyncService: if an invalid service name is synced": NOT + "keys come from objects here",
    "TestSyncService: if an invalid service is synced": _NOBODY,
    "TestSyncService: if valid service": _LIFE,
    "TestProcessServiceDeletion: non-existent": "test_stale_cache_creates_no_load_balancer_for_a_deleted_service",
    "TestProcessServiceDeletion: cloud failed": "test_failed_load_balancer_deletion_keeps_the_finalizer",
    "TestProcessServiceDeletion: successful": _LIFE,
    "TestNeedsCleanup": "test_needs_cleanup",
    "TestSlowNodeSync": "test_nodes_added_during_an_update_are_synced",
    "TestNeedsUpdate": "test_needs_update",
    "TestServiceCache": NOT + "a type of upstream's; what is remembered here is seen in what is asked of the cloud",
    "TestAddFinalizer": _LIFE,
    "TestRemoveFinalizer": "test_other_finalizers_are_kept",
    "TestPatchStatus: add status": _ADDRESSES,
    "TestPatchStatus: clear status": _NO_MORE,
    "TestPatchStatus: no-op": "test_service_updates_are_sent_to_the_cloud",
    "Test_respectsPredicates": "test_node_predicates",
    "TestListWithPredicate": "test_node_predicates",
    "Test_shouldSyncUpdatedNode_individualPredicates": _MATTER,
    "Test_shouldSyncUpdatedNode_compoundedPredicates": "test_irrelevant_node_fields_do_not_enqueue",
    "TestServiceQueueDelay: processing successful": _LIFE,
    "TestServiceQueueDelay: regular error": "test_cloud_failures_are_retried_with_backoff",
    "TestServiceQueueDelay: retry error": "test_retry_after_of_the_cloud_is_used",
}
