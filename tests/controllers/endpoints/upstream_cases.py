"""The cases of upstream's tests of ``pkg/controller/endpoint``, and where each of them is.

``endpoints_controller_test.go`` was read in a stored public copy of about v1.32; v1.36 itself could not be picked
there.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_CHANGED = "test_identical_endpoints_are_not_updated"
_PORTS = "test_ports"
_ITEMS = "test_addresses_of_a_service"
_NONE = "test_deleted_endpoints_are_recreated_unless_the_service_has_no_selector"
_FIRST = "test_service_gets_its_endpoints"
_TRIGGER = "test_other_annotations_are_kept"
_BATCH = "test_pod_changes_are_batched"
_EMPTY = NOT + "a selector that is empty is left out by the API server's own encoding, and so is none: see NoSelector"

COVERED: Cases = {
    "TestSyncEndpointsItemsPreserveNoSelector": _NONE,
    "TestSyncEndpointsExistingNilSubsets": _CHANGED,
    "TestSyncEndpointsExistingEmptySubsets": _CHANGED,
    "TestSyncEndpointsWithPodResourceVersionUpdateOnly": _FIRST,
    "TestSyncEndpointsNewNoSubsets": _FIRST,
    "TestCheckLeftoverEndpoints": "test_leftover_endpoints_are_deleted_at_startup_except_leader_election_locks",
    "TestSyncEndpointsProtocolTCP, …UDP, …SCTP": _PORTS,
    "TestSyncEndpointsHeadlessServiceLabel": "test_labels",
    "TestSyncServiceExternalNameType": "test_external_name_service_has_no_endpoints",
    "TestSyncEndpointsItemsEmptySelectorSelectsAll, …NotReady, …Mixed": _EMPTY,
    "TestSyncEndpointsItemsPreexisting": _FIRST,
    "TestSyncEndpointsItemsPreexistingIdentical": _CHANGED,
    "TestSyncEndpointsItems": _PORTS,
    "TestSyncEndpointsItemsWithLabels": "test_labels",
    "TestSyncEndpointsItemsPreexistingLabelsChange": "test_service_labels_replace_endpoints_labels",
    "TestWaitsForAllInformersToBeSynced2": NOT
    + "controllers are started by the machinery here, which has this test for all of them at once",
    "TestSyncEndpointsHeadlessWithoutPort": _PORTS,
    "TestPodToEndpointAddressForService": "test_pod_to_endpoint_address",
    "TestLastTriggerChangeTimeAnnotation": _TRIGGER,
    "TestLastTriggerChangeTimeAnnotation_AnnotationOverridden": _TRIGGER,
    "TestLastTriggerChangeTimeAnnotation_AnnotationCleared": _TRIGGER,
    "TestPodUpdatesBatching, TestPodAddsBatching, TestPodDeleteBatching": _BATCH,
    "TestSyncEndpointsServiceNotFound": _FIRST,
    "TestSyncServiceOverCapacity": "test_service_over_capacity",
    "TestTruncateEndpoints": "test_truncate_endpoints",
    "TestEndpointPortFromServicePort": _PORTS,
    "TestMultipleServiceChanges": "test_recreated_service_gets_endpoints_with_a_stale_cache",
    "TestMultiplePodChanges": "test_sync_waits_for_its_own_write_in_the_cache",
    "TestSyncServiceAddresses": _ITEMS,
    "TestEndpointsDeletionEvents": _NONE,
    "TestEndpointSubsetsEqualIgnoreResourceVersion": _CHANGED,
}
