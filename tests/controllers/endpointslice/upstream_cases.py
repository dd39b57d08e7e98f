"""The cases of upstream's tests of ``pkg/controller/endpointslice`` and ``k8s.io/endpointslice``, and where each is.

Read in stored public copies: ``endpointslice_controller_test.go`` of about v1.28, ``reconciler_test.go`` of v1.31;
v1.36 itself could not be picked there. What came later (the field ``trafficDistribution``'s new values) is in
``test_hints.py``, from v1.36's code.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_FIRST = "test_a_service_gets_its_slice_and_the_slice_its_pods"
_NONE = "test_some_services_have_no_slices"
_GOES = "test_a_service_that_goes_gets_no_slice_any_more_and_those_that_there_are_stay_right"
_THEIRS = "test_what_others_do_to_its_slices_is_put_right_and_theirs_are_left_alone"
_BATCH = "test_changes_of_pods_are_collected_for_the_batch_period"
_STALE = "test_endpoints_converge_whatever_happens_on_the_way"
_EMPTY = "test_nothing_becomes_a_placeholder_which_then_stays"
_ONE = "test_a_placeholder_becomes_the_first_slice_in_one_write"
_LABELS = "test_a_label_of_the_service_reaches_every_slice_and_a_reserved_one_none"
_HINTS = "test_hints_come_and_go_with_the_annotation_and_are_told_of"
_UNKNOWN = "test_a_pod_of_an_unknown_node_is_left_out_and_told_of_unless_all_are_published"

COVERED: Cases = {
    # endpointslice_controller_test.go
    "TestSyncServiceNoSelector": _NONE,
    "TestServiceExternalNameTypeSync": _NONE,
    "TestSyncServicePendingDeletion": _GOES,
    "TestSyncServiceWithSelector": _FIRST,
    "TestSyncServiceMissing": "test_of_a_service_that_is_gone_nothing_is_written_any_more",
    "TestSyncServicePodSelection": _FIRST,
    "TestSyncServiceEndpointSlicePendingDeletion": (
        "test_a_slice_that_is_on_its_way_out_has_a_successor_and_is_left_alone"
    ),
    "TestSyncServiceEndpointSliceLabelSelection": _THEIRS,
    "TestOnEndpointSliceUpdate": "test_a_slice_that_is_given_away_is_replaced",
    "TestSyncService": "test_conditions",
    "TestSyncService: two families": "test_each_family_has_its_own_addresses",
    "TestPodAddsBatching, TestPodUpdatesBatching": _BATCH,
    "TestPodDeleteBatching": "test_pods_that_go_are_collected_too_and_each_batch_is_one_write",
    "TestSyncServiceStaleInformer": _STALE,
    "Test_checkNodeTopologyDistribution": "test_overload",
    "TestUpdateNode": _HINTS,
    # reconciler_test.go
    "TestReconcileEmpty": _EMPTY,
    "TestReconcile1Pod": _ONE,
    "TestReconcile1EndpointSlice": _EMPTY,
    "TestPlaceHolderSliceCompare": _EMPTY,
    "TestReconcile1EndpointSlicePublishNotReadyAddresses": "test_conditions",
    "TestReconcileManyPods": "test_250_pods_are_three_slices",
    "TestReconcileEndpointSlicesSomePreexisting": "test_packing",
    "TestReconcileEndpointSlicesSomePreexistingWorseAllocation": "test_packing",
    "TestReconcileEndpointSlicesUpdating": "test_a_service_whose_port_changes_reuses_the_name",
    "TestReconcileEndpointSlicesServicesLabelsUpdating": _LABELS,
    "TestReconcileEndpointSlicesServicesReservedLabels": _LABELS,
    "TestReconcileEndpointSlicesRecycling": "test_half_full_ones_are_merged_when_all_are_written_anyway",
    "TestReconcileEndpointSlicesUpdatePacking": "test_new_ones_go_where_they_fit_best_also_if_all_are_written_anyway",
    "TestReconcileEndpointSlicesReplaceDeprecated": NOT
    + "the API server has no address type but IPv4, IPv6 and FQDN any more",
    "TestReconcileEndpointSlicesRecreation": "test_slices_of_an_older_service_of_the_name_go_and_are_not_reused",
    "TestReconcileEndpointSlicesNamedPorts": "test_pods_with_other_ports_are_in_other_slices",
    "TestReconcileMaxEndpointsPerSlice": "test_no_slice_has_more_than_it_may",
    "TestReconcileEndpointSlicesMetrics": _FIRST,
    "TestReconcilerFinalizeSvcDeletionTimestamp": _GOES,
    "TestReconcilerPodMissingNode": _UNKNOWN,
    "TestReconcileTopology": _HINTS,
    "TestReconcile_TrafficDistribution": "test_near",
}
