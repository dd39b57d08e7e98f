"""The cases of v1.36 ``pkg/controller/podautoscaler``, and where each of them is.

``COVERED`` names for every upstream test, and for the tables of ``replica_calculator_test.go`` once for all their rows,
the function of ours that has it.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import NOT, Cases, missing

_UTILIZATION = "test_shares_of_requests"
_ONE = "test_shares_of_the_requests_of_one_container"
_OTHER = "test_metrics_of_other_apis"
_BY_VALUE = "test_one_value"
_SHARES = "test_a_share_of_one_value"
_AVERAGES = "test_averages_per_pod"
_BOUNDS = "test_a_size_outside_the_bounds_is_corrected_without_metrics"
_ZERO = "test_to_zero_and_back_where_that_is_switched_on"
_WAKE = "test_a_minimum_that_is_raised_at_zero_scales_up"
_GATE = "test_the_condition_of_the_gate_goes_when_it_is_off"
_ONE_FAILS = "test_one_metric_that_fails_stops_a_fall_and_not_a_rise"
_RIVALS = "test_only_autoscalers_that_share_pods_are_rivals"
_SELECTOR = "test_an_invalid_or_ambiguous_selector"
_METRICS = "test_its_metrics_are_upstreams"
_FIRST = "test_the_first_sync_comes_after_one_period_and_scales_in_proportion"
_NO_BEHAVIOR = "test_bounds_without_a_behavior"
_NEXT = NOT + "it is of v1.37, which looks at new autoscalers at once and has a consistency store for them"

COVERED: Cases = {
    # horizontal_test.go
    "TestScaleUp": _FIRST,
    "TestScaleUpUnreadyLessScale": _UTILIZATION,
    "TestScaleUpHotCpuLessScale": _UTILIZATION,
    "TestScaleUpIgnoresFailedPods": _UTILIZATION,
    "TestScaleUpIgnoresDeletionPods": _UTILIZATION,
    "TestScaleUpDeployment": _FIRST,
    "TestScaleUpReplicaSet": "test_any_scale_subresource_will_do",
    "TestScaleUpUnreadyNoScale": _UTILIZATION,
    "TestScaleDown": "test_load_comes_and_goes_and_the_size_follows_after_the_window",
    "TestScaleDownIncludeUnreadyPods": _UTILIZATION,
    "TestScaleDownIgnoreHotCpuPods": _UTILIZATION,
    "TestScaleDownIgnoresFailedPods": _UTILIZATION,
    "TestScaleDownIgnoresDeletionPods": _UTILIZATION,
    "TestScaleDownStabilizeInitialSize": "test_a_restart_keeps_the_size_for_the_window",
    "TestScaleUpContainer": "test_resources_of_pods_and_containers",
    "TestScaleDownContainerResource": "test_resources_of_pods_and_containers",
    "TestScaleUpHotCpuNoScale": _UTILIZATION,
    "TestScaleUpCMUnreadyandCpuHot": _AVERAGES,
    "TestScaleUpCM": _OTHER,
    "TestScaleUpCMUnreadyAndHotCpuNoLessScale": _AVERAGES,
    "TestScaleUpCMExternal": _OTHER,
    "TestScaleUpPerPodCMExternal": _OTHER,
    "TestScaleUpCMObject": _OTHER,
    "TestScaleUpFromZeroCMObject": _BY_VALUE,
    "TestScaleUpFromZeroIgnoresToleranceCMObject": _BY_VALUE,
    "TestScaleUpPerPodCMObject": _OTHER,
    "TestScaleUpOneMetricInvalid": _ONE_FAILS,
    "TestScaleUpFromZeroOneMetricInvalid": _ONE_FAILS,
    "TestScaleDownCM": _AVERAGES,
    "TestScaleDownCMObject": _BY_VALUE,
    "TestScaleDownToZeroCMObject": _ZERO,
    "TestScaleDownPerPodCMObject": _SHARES,
    "TestScaleDownCMExternal": _BY_VALUE,
    "TestScaleDownToZeroCMExternal": _ZERO,
    "TestScaleDownPerPodCMExternal": _SHARES,
    "TestScaleUpFromZeroWithoutCondition": "test_zero_that_was_set_by_hand_is_left_alone",
    "TestScaleUpFromZeroWhenMinReplicasIncreased": _WAKE,
    "TestScaledToZeroConditionHandledOnNormalRescale": _GATE,
    "TestManualScaleToZeroDisablesHPA": _ZERO,
    "TestTolerance": _UTILIZATION,
    "TestToleranceCM": _AVERAGES,
    "TestToleranceCMObject": _BY_VALUE,
    "TestToleranceCMExternal": _BY_VALUE,
    "TestTolerancePerPodCMObject": _SHARES,
    "TestTolerancePerPodCMExternal": _SHARES,
    "TestConfigurableTolerance": "test_a_tolerance_of_its_own_counts_only_where_the_gate_is_on",
    "TestMinReplicas": _NO_BEHAVIOR,
    "TestZeroMinReplicasDesiredZero": _NO_BEHAVIOR,
    "TestMinReplicasDesiredZero": _NO_BEHAVIOR,
    "TestZeroReplicas": "test_zero_by_hand_switches_it_off",
    "TestTooFewReplicas": _BOUNDS,
    "TestTooManyReplicas": _BOUNDS,
    "TestMaxReplicas": _NO_BEHAVIOR,
    "TestScaleUpRCImmediately": _BOUNDS,
    "TestScaleDownRCImmediately": _BOUNDS,
    "TestSuperfluousMetrics": _UTILIZATION,
    "TestMissingMetrics": _UTILIZATION,
    "TestEmptyMetrics": "test_every_kind_of_metric_says_why_it_is_not_there",
    "TestEmptyCPURequest": "test_pods_without_requests_have_no_utilization",
    "TestMissingReports": "test_a_pod_without_a_sample_counts_as_idle_on_the_way_up_and_as_busy_on_the_way_down",
    "TestMoreReplicasThanSpecNoScale": _UTILIZATION,
    "TestEventCreated": _FIRST,
    "TestEventNotCreated": "test_where_nothing_changes_nothing_is_written",
    "TestUpscaleCap": _NO_BEHAVIOR,
    "TestUpscaleCapGreaterThanMaxReplicas": _NO_BEHAVIOR,
    "TestConditionInvalidSelectorMissing": _SELECTOR,
    "TestConditionInvalidSelectorUnparsable": _SELECTOR,
    "TestConditionNoAmbiguousSelectorWhenNoSelectorOverlapBetweenHPAs": _RIVALS,
    "TestConditionAmbiguousSelectorWhenFullSelectorOverlapBetweenHPAs": _RIVALS,
    "TestConditionAmbiguousSelectorWhenPartialSelectorOverlapBetweenHPAs": _RIVALS,
    "TestConditionFailedGetMetrics": "test_every_kind_of_metric_says_why_it_is_not_there",
    "TestConditionInvalidSourceType": "test_what_cannot_be_asked_for_fails_before_anybody_is_asked",
    "TestNoScaleDownOneMetricInvalid": _ONE_FAILS,
    "TestConditionFailedGetScale": "test_a_target_that_is_not_there",
    "TestConditionFailedUpdateScale": "test_a_size_that_cannot_be_set",
    "TestNoBackoffUpscaleCM": "test_the_largest_proposal_counts",
    "TestNoBackoffUpscaleCMNoBackoffCpu": "test_the_largest_proposal_counts",
    "TestStabilizeDownscale": "test_load_comes_and_goes_and_the_size_follows_after_the_window",
    "TestScaleUpOneMetricEmpty": _ONE_FAILS,
    "TestNoScaleDownOneMetricEmpty": _ONE_FAILS,
    "TestReconciliationDurationIsRecorded": _METRICS,
    "TestReconciliationDurationIsRecordedOnError": _METRICS,
    "TestReconciliationsTotalCountMultipleReconciliations": _METRICS,
    "TestAvoidUnnecessaryUpdates": "test_where_nothing_changes_nothing_is_written",
    "TestBuildQuantity": "test_resources_of_pods_and_containers",
    "TestCalculateScaleDownLimitWithBehaviors": "test_the_smaller_policy_where_that_is_wanted",
    "TestCalculateScaleUpLimitWithScalingRules": "test_the_smaller_policy_where_that_is_wanted",
    "TestComputedToleranceAlgImplementation": "test_the_smallest_difference_that_counts_is_the_tolerance",
    "TestConvertDesiredReplicasWithRules": _NO_BEHAVIOR,
    "TestHPARescaleWithSuccessfulConflictRetry": ("test_a_size_that_is_written_meanwhile_is_set_all_the_same"),
    "TestMultipleHPAs": "test_many_are_synced_within_one_period",
    "TestNormalizeDesiredReplicas": "test_the_window_without_a_behavior",
    "TestNormalizeDesiredReplicasWithBehavior": "test_windows_with_a_behavior",
    "TestScalingWithRules": "test_bounds_with_a_behavior",
    "TestStoreScaleEvents": "test_what_was_changed_is_remembered",
    "TestDeleteHPAClearsConsistencyStore": _NEXT,
    "TestEnqueueHPAAddsImmediately": _NEXT,
    "TestEnqueueHPARegistersSelectorBeforeQueueAdd": _NEXT,
    "TestReconcileKeyEnsureReadyStaleCache": _NEXT,
    "TestUpdateHPAEnqueueBehavior": _NEXT,
    "TestUpdateHPAFallsBackWhenFeatureDisabled": _NEXT,
    "TestUpdateStatusPopulatesConsistencyStore": _NEXT,
    # replica_calculator_test.go
    "TestReplicaCalcResourceScale": _UTILIZATION,
    "TestReplicaCalcResourceScale: container metrics": _ONE,
    "TestReplicaCalcDisjointResourcesMetrics": "test_without_samples_there_is_no_size",
    "TestReplicaCalcScaleUpOverflow": _BY_VALUE,
    "TestReplicaCalcExternalMetricUsageOverflow": ("test_values_from_outside_add_up_to_no_more_than_can_be_counted"),
    "TestExternalPerPodMetric…Overflow": _SHARES,
    "TestReplicaCalc…CM": _AVERAGES,
    "TestReplicaCalc…CMObject, …CMExternal": _BY_VALUE,
    "TestReplicaCalc…PerPodCMObject, …PerPodCMExternal": _SHARES,
    "TestReplicaCalc…Tolerance": _UTILIZATION,
    "TestReplicaCalcMissingMetrics…": _UTILIZATION,
    "TestReplicaCalcEmpty…": "test_without_samples_there_is_no_size",
    "TestReplicaCalcDuringRollingUpdateWithMaxSurge": _UTILIZATION,
    "TestReplicaCalcComputedToleranceAlgImplementation": "test_the_smallest_difference_that_counts_is_the_tolerance",
    "TestGroupPods": "test_groups",
    "TestCalculateRequests": "test_requests",
    "TestCalculatePodRequestsFromContainers_NonExistentContainer": "test_without_requests_there_is_no_utilization",
    # monitor/metrics_test.go
    "TestHPAAdditionAndDeletionMetrics": _METRICS,
}


def test_no_upstream_case_is_missing() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
