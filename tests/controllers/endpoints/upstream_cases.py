"""The cases of upstream's tests of ``pkg/controller/endpoint``, and where each of them is.

``endpoints_controller_test.go`` was read in a stored public copy of about v1.32; v1.36 itself could not be picked
there.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_CHANGED = "test_what_need_not_be_written"
_PORTS = "test_ports"
_ITEMS = "test_which_pods_are_reached"
_NONE = "test_what_somebody_deletes_comes_back_and_what_has_no_selector_is_left_alone"
_FIRST = "test_a_service_gets_its_endpoints"
_TRIGGER = "test_annotations_of_others_stay"
_BATCH = "test_changes_of_pods_are_collected_for_the_batch_period"
_EMPTY = NOT + "a selector that is empty is left out by the API server's own encoding, and so is none: see NoSelector"

COVERED: Cases = {
    "TestSyncEndpointsItemsPreserveNoSelector": _NONE,
    "TestSyncEndpointsExistingNilSubsets": _CHANGED,
    "TestSyncEndpointsExistingEmptySubsets": _CHANGED,
    "TestSyncEndpointsWithPodResourceVersionUpdateOnly": _FIRST,
    "TestSyncEndpointsNewNoSubsets": _FIRST,
    "TestCheckLeftoverEndpoints": "test_at_the_start_endpoints_without_a_service_go_but_not_locks",
    "TestSyncEndpointsProtocolTCP, …UDP, …SCTP": _PORTS,
    "TestSyncEndpointsHeadlessServiceLabel": "test_labels",
    "TestSyncServiceExternalNameType": "test_a_service_of_another_name_has_none",
    "TestSyncEndpointsItemsEmptySelectorSelectsAll, …NotReady, …Mixed": _EMPTY,
    "TestSyncEndpointsItemsPreexisting": _FIRST,
    "TestSyncEndpointsItemsPreexistingIdentical": _CHANGED,
    "TestSyncEndpointsItems": _PORTS,
    "TestSyncEndpointsItemsWithLabels": "test_labels",
    "TestSyncEndpointsItemsPreexistingLabelsChange": "test_labels_of_the_service_replace_those_of_the_endpoints",
    "TestWaitsForAllInformersToBeSynced2": NOT
    + "controllers are started by the machinery here, which has this test for all of them at once",
    "TestSyncEndpointsHeadlessWithoutPort": _PORTS,
    "TestPodToEndpointAddressForService": "test_the_address_of_a_pod",
    "TestLastTriggerChangeTimeAnnotation": _TRIGGER,
    "TestLastTriggerChangeTimeAnnotation_AnnotationOverridden": _TRIGGER,
    "TestLastTriggerChangeTimeAnnotation_AnnotationCleared": _TRIGGER,
    "TestPodUpdatesBatching, TestPodAddsBatching, TestPodDeleteBatching": _BATCH,
    "TestSyncEndpointsServiceNotFound": _FIRST,
    "TestSyncServiceOverCapacity": "test_a_service_of_many_pods",
    "TestTruncateEndpoints": "test_no_more_than_may_be",
    "TestEndpointPortFromServicePort": _PORTS,
    "TestMultipleServiceChanges": "test_a_service_that_is_made_anew_has_its_endpoints_whatever_the_cache_shows",
    "TestMultiplePodChanges": "test_a_cache_that_shows_what_was_overwritten_is_waited_for",
    "TestSyncServiceAddresses": _ITEMS,
    "TestEndpointsDeletionEvents": _NONE,
    "TestEndpointSubsetsEqualIgnoreResourceVersion": _CHANGED,
}
