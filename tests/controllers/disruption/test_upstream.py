"""Coverage of upstream's tests of ``pkg/controller/disruption``.

``disruption_test.go`` was read in a stored public copy of about v1.25; v1.36 itself could not be picked there.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import Cases, missing

_SHARES = "test_percentages_are_of_the_controllers_replicas"
_NAKED = "test_unmanaged_pods_allow_no_disruptions_and_are_reported"
_SCALED = "test_scaling_a_controller_updates_the_budget"
_STALE = "test_stale_disruption_target_condition_is_reset"

COVERED: Cases = {
    "TestNoSelector": "test_pods_of_a_budget_and_budgets_of_a_pod",
    "TestUnavailable": "test_integer_min_available_expects_the_existing_pods",
    "TestIntegerMaxUnavailable": _NAKED,
    "TestIntegerMaxUnavailableWithScaling": _SCALED,
    "TestPercentageMaxUnavailableWithScaling": _SCALED,
    "TestNakedPod": _NAKED,
    "TestStatusForUnmanagedPod": _NAKED,
    "TestTotalUnmanagedPods": _NAKED,
    "TestUnsupportedControllerPod": "test_owner_of_an_unserved_kind_is_an_error_until_changed",
    "TestReplicaSet": _SHARES,
    "TestScaleResource": "test_scale_of_a_custom_resource_is_used",
    "TestScaleFinderNoResource": "test_owner_without_a_scale_subresource_is_an_error",
    "TestMultipleControllers": "test_expected_and_desired_healthy_pods",
    "TestReplicationController": "test_percentage_of_a_replication_controller_with_an_unmanaged_pod",
    "TestStatefulSetController": _SHARES,
    "TestTwoControllers": "test_expected_and_desired_healthy_pods",
    "TestPDBNotExist": "test_budget_deleted_during_its_update_is_no_error",
    "TestUpdateDisruptedPods": "test_disrupted_pods_are_removed_when_deleted_or_after_the_timeout",
    "TestBasicFinderFunctions": "test_basic_finder_functions",
    "TestDeploymentFinderFunction": "test_deployment_finder_function",
    "TestUpdatePDBStatusRetries": "test_status_update_does_not_overwrite_concurrent_evictions",
    "TestInvalidSelectors": "test_invalid_selector_matches_nothing",
    "TestStalePodDisruption": _STALE,
    "TestStalePodDisruption: when": "test_stale_disruption_condition",
    "TestKeepExistingPDBConditionDuringSync": "test_conditions_of_others_are_kept",
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
