"""The cases of upstream's tests of ``pkg/controller/endpointslicemirroring``, and where each of them is.

``endpointslicemirroring_controller_test.go`` was read in a stored public copy of about v1.25; v1.36 itself could not be
picked there. The rows of the other files are those that ``test_decide.py`` names.
"""

from tests.controllers.upstream_coverage import Cases

_WHO = "test_endpoints_that_are_mirrored"

COVERED: Cases = {
    # endpointslicemirroring_controller_test.go
    "TestSyncEndpoints: no addresses; skip label; missing Service; selector": _WHO,
    "TestSyncEndpoints: existing EndpointSlices that need to be cleaned up": (
        "test_existing_slices_are_reused_or_deleted_at_startup"
    ),
    "TestSyncEndpoints: managed by a different controller": "test_existing_slices_are_reused_or_deleted_at_startup",
    "TestSyncEndpoints: 1000 addresses, 1001 addresses": "test_max_endpoints_per_subset",
    "TestShouldMirror": "test_should_mirror",
    "TestEndpointSlicesMirroredForService": "test_existing_slices_are_reused_or_deleted_at_startup",
    # reconciler_test.go, reconciler_helpers_test.go, utils_test.go
    "TestReconcile": "test_reconcile",
    "TestReconcile: annotations": "test_annotations",
    "TestRecycleSlices": "test_slices_are_recycled",
    "TestNewEndpointSlice": "test_new_slices_are_owned_by_the_endpoints",
    "TestAddressToEndpoint": "test_address_to_endpoint",
}
