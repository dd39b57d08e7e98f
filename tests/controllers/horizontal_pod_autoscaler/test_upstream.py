"""Coverage of upstream's tests of v1.36 ``pkg/controller/podautoscaler``.

``COVERED`` names for every upstream test, and for the tables of ``replica_calculator_test.go`` once for all their rows,
the function of ours that has it.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import NOT, Cases, missing

_UTILIZATION = "test_resource_utilization"
_ONE = "test_container_resource_utilization"
_OTHER = "test_custom_and_external_metrics"
_BY_VALUE = "test_object_and_external_values"
_SHARES = "test_object_and_external_per_pod_values"
_AVERAGES = "test_per_pod_averages"
_BOUNDS = "test_replicas_outside_min_and_max_are_corrected_without_metrics"
_ZERO = "test_scale_to_zero_and_back_with_the_gate"
_WAKE = "test_raised_min_replicas_at_zero_scales_up"
_GATE = "test_scaled_to_zero_condition_is_removed_without_the_gate"
_ONE_FAILS = "test_one_failing_metric_prevents_scale_down_but_not_scale_up"
_RIVALS = "test_selectors_are_ambiguous_only_if_pods_overlap"
_SELECTOR = "test_invalid_or_missing_selector"
_METRICS = "test_metrics_are_upstreams"
_FIRST = "test_first_sync_after_one_period_scales_proportionally"
_NO_BEHAVIOR = "test_convert_desired_replicas_with_rules"
_NEXT = NOT + "it is of v1.37, which looks at new autoscalers at once and has a consistency store for them"

COVERED: Cases = {
    # horizontal_test.go
    "TestScaleUp": _FIRST,
    "TestScaleUpUnreadyLessScale": _UTILIZATION,
    "TestScaleUpHotCpuLessScale": _UTILIZATION,
    "TestScaleUpIgnoresFailedPods": _UTILIZATION,
    "TestScaleUpIgnoresDeletionPods": _UTILIZATION,
    "TestScaleUpDeployment": _FIRST,
    "TestScaleUpReplicaSet": "test_custom_resource_with_a_scale_subresource",
    "TestScaleUpUnreadyNoScale": _UTILIZATION,
    "TestScaleDown": "test_scale_down_waits_for_the_stabilization_window",
    "TestScaleDownIncludeUnreadyPods": _UTILIZATION,
    "TestScaleDownIgnoreHotCpuPods": _UTILIZATION,
    "TestScaleDownIgnoresFailedPods": _UTILIZATION,
    "TestScaleDownIgnoresDeletionPods": _UTILIZATION,
    "TestScaleDownStabilizeInitialSize": "test_restart_keeps_replicas_for_the_stabilization_window",
    "TestScaleUpContainer": "test_resource_and_container_resource_metrics",
    "TestScaleDownContainerResource": "test_resource_and_container_resource_metrics",
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
    "TestScaleUpFromZeroWithoutCondition": "test_zero_replicas_set_manually_are_kept",
    "TestScaleUpFromZeroWhenMinReplicasIncreased": _WAKE,
    "TestScaledToZeroConditionHandledOnNormalRescale": _GATE,
    "TestManualScaleToZeroDisablesHPA": _ZERO,
    "TestTolerance": _UTILIZATION,
    "TestToleranceCM": _AVERAGES,
    "TestToleranceCMObject": _BY_VALUE,
    "TestToleranceCMExternal": _BY_VALUE,
    "TestTolerancePerPodCMObject": _SHARES,
    "TestTolerancePerPodCMExternal": _SHARES,
    "TestConfigurableTolerance": "test_configurable_tolerance_gate",
    "TestMinReplicas": _NO_BEHAVIOR,
    "TestZeroMinReplicasDesiredZero": _NO_BEHAVIOR,
    "TestMinReplicasDesiredZero": _NO_BEHAVIOR,
    "TestZeroReplicas": "test_zero_replicas_disable_scaling",
    "TestTooFewReplicas": _BOUNDS,
    "TestTooManyReplicas": _BOUNDS,
    "TestMaxReplicas": _NO_BEHAVIOR,
    "TestScaleUpRCImmediately": _BOUNDS,
    "TestScaleDownRCImmediately": _BOUNDS,
    "TestSuperfluousMetrics": _UTILIZATION,
    "TestMissingMetrics": _UTILIZATION,
    "TestEmptyMetrics": "test_failed_metrics_have_a_reason_by_source_type",
    "TestEmptyCPURequest": "test_pods_without_requests_fail_utilization",
    "TestMissingReports": "test_missing_metrics_are_assumed_conservatively",
    "TestMoreReplicasThanSpecNoScale": _UTILIZATION,
    "TestEventCreated": _FIRST,
    "TestEventNotCreated": "test_unchanged_status_is_not_written",
    "TestUpscaleCap": _NO_BEHAVIOR,
    "TestUpscaleCapGreaterThanMaxReplicas": _NO_BEHAVIOR,
    "TestConditionInvalidSelectorMissing": _SELECTOR,
    "TestConditionInvalidSelectorUnparsable": _SELECTOR,
    "TestConditionNoAmbiguousSelectorWhenNoSelectorOverlapBetweenHPAs": _RIVALS,
    "TestConditionAmbiguousSelectorWhenFullSelectorOverlapBetweenHPAs": _RIVALS,
    "TestConditionAmbiguousSelectorWhenPartialSelectorOverlapBetweenHPAs": _RIVALS,
    "TestConditionFailedGetMetrics": "test_failed_metrics_have_a_reason_by_source_type",
    "TestConditionInvalidSourceType": "test_invalid_metric_source_fails_without_requests",
    "TestNoScaleDownOneMetricInvalid": _ONE_FAILS,
    "TestConditionFailedGetScale": "test_missing_scale_target",
    "TestConditionFailedUpdateScale": "test_failed_scale_update",
    "TestNoBackoffUpscaleCM": "test_largest_recommendation_wins",
    "TestNoBackoffUpscaleCMNoBackoffCpu": "test_largest_recommendation_wins",
    "TestStabilizeDownscale": "test_scale_down_waits_for_the_stabilization_window",
    "TestScaleUpOneMetricEmpty": _ONE_FAILS,
    "TestNoScaleDownOneMetricEmpty": _ONE_FAILS,
    "TestReconciliationDurationIsRecorded": _METRICS,
    "TestReconciliationDurationIsRecordedOnError": _METRICS,
    "TestReconciliationsTotalCountMultipleReconciliations": _METRICS,
    "TestAvoidUnnecessaryUpdates": "test_unchanged_status_is_not_written",
    "TestBuildQuantity": "test_resource_and_container_resource_metrics",
    "TestCalculateScaleDownLimitWithBehaviors": "test_select_policy_min",
    "TestCalculateScaleUpLimitWithScalingRules": "test_select_policy_min",
    "TestComputedToleranceAlgImplementation": "test_tolerance",
    "TestConvertDesiredReplicasWithRules": _NO_BEHAVIOR,
    "TestHPARescaleWithSuccessfulConflictRetry": ("test_concurrent_scale_update_is_retried"),
    "TestMultipleHPAs": "test_hundred_autoscalers_are_synced_within_one_period",
    "TestNormalizeDesiredReplicas": "test_stabilization_window_without_behavior",
    "TestNormalizeDesiredReplicasWithBehavior": "test_stabilization_windows_with_behavior",
    "TestScalingWithRules": "test_scaling_policies",
    "TestStoreScaleEvents": "test_store_scale_events",
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
    "TestReplicaCalcDisjointResourcesMetrics": "test_missing_metrics_are_an_error",
    "TestReplicaCalcScaleUpOverflow": _BY_VALUE,
    "TestReplicaCalcExternalMetricUsageOverflow": ("test_external_metric_sum_saturates"),
    "TestExternalPerPodMetric…Overflow": _SHARES,
    "TestReplicaCalc…CM": _AVERAGES,
    "TestReplicaCalc…CMObject, …CMExternal": _BY_VALUE,
    "TestReplicaCalc…PerPodCMObject, …PerPodCMExternal": _SHARES,
    "TestReplicaCalc…Tolerance": _UTILIZATION,
    "TestReplicaCalcMissingMetrics…": _UTILIZATION,
    "TestReplicaCalcEmpty…": "test_missing_metrics_are_an_error",
    "TestReplicaCalcDuringRollingUpdateWithMaxSurge": _UTILIZATION,
    "TestReplicaCalcComputedToleranceAlgImplementation": "test_tolerance",
    "TestGroupPods": "test_group_pods",
    "TestCalculateRequests": "test_calculate_requests",
    "TestCalculatePodRequestsFromContainers_NonExistentContainer": "test_missing_requests_are_an_error",
    # monitor/metrics_test.go
    "TestHPAAdditionAndDeletionMetrics": _METRICS,
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
