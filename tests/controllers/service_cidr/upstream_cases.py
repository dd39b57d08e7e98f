"""The cases of upstream's tests of ``pkg/controller/servicecidrs``, and where each of them is.

``servicecidrs_controller_test.go`` was read in stored public copies of about v1.31 and v1.32; v1.36 itself could not be
picked there.
"""

from tests.controllers.upstream_coverage import Cases

_READY = "test_service_cidrs_get_the_finalizer_and_ready_condition"
_GRACE = "test_unused_service_cidr_is_deleted_after_ten_seconds"
_GOES = "test_sync_of_a_terminating_cidr"

COVERED: Cases = {
    "TestControllerSync: must have finalizer": _READY,
    "TestControllerSync: must remove the finalizer, within the grace period": _GRACE,
    "TestControllerSync: with addresses": _GOES,
    "TestControllerSync: overlapping": "test_containing_service_cidr_allows_the_deletion",
    "TestController_canDeleteCIDR": "test_can_delete_cidr",
    "TestController_ipToCidrs": "test_ip_to_cidrs",
    "TestController_cidrToCidrs": "test_cidr_to_cidrs",
    "TestPrefixContainsIP": "test_prefix_contains_ip",
    "TestContainsPrefix": "test_contains_prefix",
}
