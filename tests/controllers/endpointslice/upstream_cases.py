"""The cases of upstream's tests of ``pkg/controller/endpointslice`` and ``k8s.io/endpointslice``, and where each is.

Read in stored public copies: ``endpointslice_controller_test.go`` of about v1.28, ``reconciler_test.go`` of v1.31;
v1.36 itself could not be picked there. What came later (the field ``trafficDistribution``'s new values) is in
``test_hints.py``, from v1.36's code.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_FIRST = "test_service_gets_a_slice_with_its_pods"
_NONE = "test_services_without_a_selector_or_with_an_external_name_have_no_slices"
_GOES = "test_terminating_service_gets_no_new_slices_and_existing_ones_are_updated"
_THEIRS = "test_changed_slices_are_reverted_and_foreign_slices_ignored"
_BATCH = "test_pod_changes_are_batched"
_STALE = "test_slices_converge_under_faults"
_EMPTY = "test_service_without_pods_gets_a_placeholder_slice"
_ONE = "test_placeholder_slice_is_updated_with_the_first_endpoint"
_LABELS = "test_service_labels_are_copied_except_reserved_ones"
_HINTS = "test_topology_hints_follow_the_annotation_with_events"
_UNKNOWN = "test_pod_on_an_unknown_node_is_skipped_unless_publishing_not_ready_addresses"

COVERED: Cases = {
    # endpointslice_controller_test.go
    "TestSyncServiceNoSelector": _NONE,
    "TestServiceExternalNameTypeSync": _NONE,
    "TestSyncServicePendingDeletion": _GOES,
    "TestSyncServiceWithSelector": _FIRST,
    "TestSyncServiceMissing": "test_nothing_is_written_for_a_deleted_service",
    "TestSyncServicePodSelection": _FIRST,
    "TestSyncServiceEndpointSlicePendingDeletion": ("test_terminating_slice_is_replaced_and_not_updated"),
    "TestSyncServiceEndpointSliceLabelSelection": _THEIRS,
    "TestOnEndpointSliceUpdate": "test_slice_with_changed_managed_by_label_is_replaced",
    "TestSyncService": "test_conditions",
    "TestSyncService: two families": "test_address_families_have_separate_slices",
    "TestPodAddsBatching, TestPodUpdatesBatching": _BATCH,
    "TestPodDeleteBatching": "test_pod_deletions_are_batched_with_one_write_each",
    "TestSyncServiceStaleInformer": _STALE,
    "Test_checkNodeTopologyDistribution": "test_overload_threshold",
    "TestUpdateNode": _HINTS,
    # reconciler_test.go
    "TestReconcileEmpty": _EMPTY,
    "TestReconcile1Pod": _ONE,
    "TestReconcile1EndpointSlice": _EMPTY,
    "TestPlaceHolderSliceCompare": _EMPTY,
    "TestReconcile1EndpointSlicePublishNotReadyAddresses": "test_conditions",
    "TestReconcileManyPods": "test_250_pods_need_three_slices",
    "TestReconcileEndpointSlicesSomePreexisting": "test_packing",
    "TestReconcileEndpointSlicesSomePreexistingWorseAllocation": "test_packing",
    "TestReconcileEndpointSlicesUpdating": "test_changed_port_reuses_the_slice_name",
    "TestReconcileEndpointSlicesServicesLabelsUpdating": _LABELS,
    "TestReconcileEndpointSlicesServicesReservedLabels": _LABELS,
    "TestReconcileEndpointSlicesRecycling": "test_slices_are_merged_when_all_are_updated",
    "TestReconcileEndpointSlicesUpdatePacking": "test_new_endpoints_fill_the_best_fitting_slice",
    "TestReconcileEndpointSlicesReplaceDeprecated": NOT
    + "the API server has no address type but IPv4, IPv6 and FQDN any more",
    "TestReconcileEndpointSlicesRecreation": "test_slices_of_a_previous_service_of_the_same_name_are_deleted",
    "TestReconcileEndpointSlicesNamedPorts": "test_different_ports_use_different_slices",
    "TestReconcileMaxEndpointsPerSlice": "test_max_endpoints_per_slice",
    "TestReconcileEndpointSlicesMetrics": _FIRST,
    "TestReconcilerFinalizeSvcDeletionTimestamp": _GOES,
    "TestReconcilerPodMissingNode": _UNKNOWN,
    "TestReconcileTopology": _HINTS,
    "TestReconcile_TrafficDistribution": "test_traffic_distribution_hints",
}
