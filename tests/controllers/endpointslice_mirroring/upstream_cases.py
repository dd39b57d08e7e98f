"""The cases of upstream's tests of ``pkg/controller/endpointslicemirroring``, and where each of them is.

``endpointslicemirroring_controller_test.go`` was read in a stored public copy of about v1.25; v1.36 itself could not be
picked there. The rows of the other files are those that ``test_decide.py`` names.
"""

from tests.controllers.upstream_coverage import Cases

_WHO = "test_who_is_mirrored"

COVERED: Cases = {
    # endpointslicemirroring_controller_test.go
    "TestSyncEndpoints: no addresses; skip label; missing Service; selector": _WHO,
    "TestSyncEndpoints: existing EndpointSlices that need to be cleaned up": (
        "test_what_was_there_before_is_taken_over_or_cleaned_up"
    ),
    "TestSyncEndpoints: managed by a different controller": "test_what_was_there_before_is_taken_over_or_cleaned_up",
    "TestSyncEndpoints: 1000 addresses, 1001 addresses": "test_a_subset_may_be_too_large",
    "TestShouldMirror": "test_should_mirror",
    "TestEndpointSlicesMirroredForService": "test_what_was_there_before_is_taken_over_or_cleaned_up",
    # reconciler_test.go, reconciler_helpers_test.go, utils_test.go
    "TestReconcile": "test_reconcile",
    "TestReconcile: annotations": "test_annotations",
    "TestRecycleSlices": "test_slices_are_recycled",
    "TestNewEndpointSlice": "test_new_slices_are_the_endpoints_own",
    "TestAddressToEndpoint": "test_an_address_as_an_endpoint",
}
