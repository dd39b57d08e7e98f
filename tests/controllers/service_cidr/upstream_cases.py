"""The cases of upstream's tests of ``pkg/controller/servicecidrs``, and where each of them is.

``servicecidrs_controller_test.go`` was read in stored public copies of about v1.31 and v1.32; v1.36 itself could not be
picked there.
"""

from tests.controllers.upstream_coverage import Cases

_READY = "test_every_range_has_the_finalizer_and_is_ready"
_GRACE = "test_an_empty_range_goes_after_ten_seconds"
_GOES = "test_a_range_that_goes"

COVERED: Cases = {
    "TestControllerSync: must have finalizer": _READY,
    "TestControllerSync: must remove the finalizer, within the grace period": _GRACE,
    "TestControllerSync: with addresses": _GOES,
    "TestControllerSync: overlapping": "test_a_larger_range_takes_the_addresses_over",
    "TestController_canDeleteCIDR": "test_what_holds_a_range",
    "TestController_ipToCidrs": "test_which_ranges_give_an_address",
    "TestController_cidrToCidrs": "test_which_ranges_overlap",
    "TestPrefixContainsIP": "test_what_a_range_gives",
    "TestContainsPrefix": "test_what_a_range_contains",
}
