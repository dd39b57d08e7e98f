"""The cases of upstream's tests of ``pkg/controller/disruption``, and where each of them is.

``disruption_test.go`` was read in a stored public copy of about v1.25; v1.36 itself could not be picked there.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import Cases, missing

_SHARES = "test_shares_are_of_the_size_of_the_workload"
_NAKED = "test_unmanaged_pods_allow_nothing_and_are_reported"
_SCALED = "test_a_size_that_changes_is_noticed_before_any_pod_is"
_STALE = "test_a_disruption_that_does_not_come_is_called_off_on_the_pod"

COVERED: Cases = {
    "TestNoSelector": "test_budgets_and_pods_find_each_other",
    "TestUnavailable": "test_a_number_that_must_be_there_is_of_the_pods_that_there_are",
    "TestIntegerMaxUnavailable": _NAKED,
    "TestIntegerMaxUnavailableWithScaling": _SCALED,
    "TestPercentageMaxUnavailableWithScaling": _SCALED,
    "TestNakedPod": _NAKED,
    "TestStatusForUnmanagedPod": _NAKED,
    "TestTotalUnmanagedPods": _NAKED,
    "TestUnsupportedControllerPod": "test_an_owner_of_an_unserved_kind_is_an_error_and_a_new_owner_ends_it",
    "TestReplicaSet": _SHARES,
    "TestScaleResource": "test_a_custom_workload_is_asked_for_its_scale",
    "TestScaleFinderNoResource": "test_an_owner_without_a_scale_is_an_error",
    "TestMultipleControllers": "test_how_many_are_expected_and_how_many_must_be_healthy",
    "TestReplicationController": "test_shares_are_of_replication_controllers_too_and_a_rogue_pod_counts_as_healthy",
    "TestStatefulSetController": _SHARES,
    "TestTwoControllers": "test_how_many_are_expected_and_how_many_must_be_healthy",
    "TestPDBNotExist": "test_a_budget_that_goes_while_it_is_written_is_no_failure",
    "TestUpdateDisruptedPods": "test_evicted_pods_are_awaited_until_they_go_or_their_time_is_over",
    "TestBasicFinderFunctions": "test_who_is_found_in_caches",
    "TestDeploymentFinderFunction": "test_who_is_found_above_a_replica_set",
    "TestUpdatePDBStatusRetries": "test_a_status_is_not_written_over_evictions_that_came_between",
    "TestInvalidSelectors": "test_an_invalid_selector_selects_nothing",
    "TestStalePodDisruption": _STALE,
    "TestStalePodDisruption: when": "test_when_a_condition_is_stale",
    "TestKeepExistingPDBConditionDuringSync": "test_conditions_of_others_stay",
}


def test_no_upstream_case_is_missing() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
