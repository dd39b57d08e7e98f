"""Coverage of upstream's tests of ``pkg/controller/job``.

``job_controller_test.go`` was read in a stored public copy of about v1.31; v1.36 itself could not be picked there. Rows
of its tables are ids of the function that the table belongs to.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import Cases, missing

_WIRING = "test_matching_orphan_is_adopted_with_the_tracking_finalizer"
_SIZE = "test_manage_job"
_END = "test_finished_condition"
_COUNT = "test_track_job_status_and_remove_finalizers"
_CALM = "test_spec_update_is_synced_immediately_and_pod_updates_are_batched"
_ORPHAN = "test_sync_orphan_pod"
_RELEASE = "test_released_pod_loses_the_tracking_finalizer"
_EXACT = "test_completions_are_exact_under_faults"

COVERED: Cases = {
    # job_controller_test.go
    "TestControllerSyncJob": _SIZE,
    "TestControllerSyncJob: indexed Jobs": "test_manage_indexed_job",
    "TestControllerSyncJob: indexed job with some pods deleted": "test_indexed_job_with_some_pods_deleted",
    "TestControllerSyncJob: job finish, WQ job finishing": "test_job_completion",
    "TestControllerSyncJob: terminating pods": "test_terminating_pods_count_as_failed",
    "TestGetNewFinshedPods": "test_newly_finished_pods",
    "TestTrackJobStatusAndRemoveFinalizers": _COUNT,
    "TestTrackJobStatusAndRemoveFinalizers: pod patch errors with partial success": (
        "test_pods_with_a_failed_finalizer_removal_are_not_counted"
    ),
    "TestTrackJobStatusAndRemoveFinalizers: deleted job": (
        "test_deleted_job_releases_all_pods_without_counting_running_ones_as_failed"
    ),
    "TestTrackJobStatusAndRemoveFinalizers: indexed": "test_track_indexed_job_status",
    "TestTrackJobStatusAndRemoveFinalizers: JobBackoffLimitPerIndex": (
        "test_track_job_status_with_backoff_limit_per_index"
    ),
    "TestTrackJobStatusAndRemoveFinalizers: condition is delayed": (
        "test_finished_condition_is_delayed_until_finalizers_are_removed"
    ),
    "TestSyncJobPastDeadline": _END,
    "TestPastDeadlineJobFinished": "test_active_deadline_fails_the_job",
    "TestSingleJobFailedCondition": "test_completion_time_only_for_complete_jobs",
    "TestSyncJobComplete": "test_completion_time_only_for_complete_jobs",
    "TestSyncJobDeleted": "test_tracking_finalizer_is_removed_when_the_job_is_deleted",
    "TestSyncJobWhenManagedBy": "test_job_managed_by_another_controller_is_skipped",
    "TestSyncJobWithJobPodFailurePolicy": _END,
    "TestSyncJobWithJobPodFailurePolicy: metrics": "test_pod_failure_policy_actions_are_counted_once_per_pod",
    "TestSyncJobWithJobSuccessPolicy": _END,
    "TestSyncJobWithJobBackoffLimitPerIndex": _END,
    "TestSyncJobUpdateRequeue": "test_failed_sync_is_requeued_with_backoff",
    "TestUpdateJobRequeue": _CALM,
    "TestGetPodCreationInfoForIndependentIndexes": "test_pod_creation_backoff_per_index",
    "TestJobPodLookup": "test_deleted_orphan_enqueues_nothing_and_deleted_own_pod_is_replaced",
    "TestGetPodsForJob": _WIRING,
    "TestGetPodsForJob: no adopt when deleting": "test_terminating_job_adopts_nothing",
    "TestGetPodsForJob: release": _RELEASE,
    "TestAddPod": _EXACT,
    "TestAddPodOrphan": _WIRING,
    "TestUpdatePod": _EXACT,
    "TestUpdatePodOrphanWithNewLabels": _RELEASE,
    "TestUpdatePodChangeControllerRef": "test_changed_controller_ref_enqueues_both_jobs",
    "TestUpdatePodRelease": "test_pod_without_owner_is_readopted",
    "TestDeletePod": "test_deleted_orphan_enqueues_nothing_and_deleted_own_pod_is_replaced",
    "TestDeletePodOrphan": "test_deleted_orphan_enqueues_nothing_and_deleted_own_pod_is_replaced",
    "TestSyncJobExpectations": _EXACT,
    "TestWatchJobs": "test_four_completions_with_parallelism_two",
    "TestWatchPods": "test_four_completions_with_parallelism_two",
    "TestWatchOrphanPods": "test_tracking_finalizer_is_removed_when_the_job_is_deleted",
    "TestSyncOrphanPod": _ORPHAN,
    "TestJobApiBackoffReset": "test_failed_sync_is_requeued_with_backoff",
    "TestJobBackoff": _CALM,
    "TestJobBackoffForOnFailure": _END,
    "TestJobBackoffOnRestartPolicyNever": _END,
    "TestEnsureJobConditions": "test_ensure_job_conditions",
    "TestFinalizersRemovedExpectations": _EXACT,
    "TestFinalizerCleanup": _ORPHAN,
    "TestJobPodReplacementPolicy": "test_pod_creation_reasons",
    # indexed_job_utils_test.go
    "TestCalculateSucceededIndexes": "test_succeeded_indexes_text",
    "TestIntervalsHaveIndex": "test_succeeded_indexes_text",
    "TestIsIndexFailed": "test_failed_indexes",
    "TestCalculateFailedIndexes": "test_failed_indexes",
    "TestGetPodsWithDelayedDeletionPerIndex": "test_pods_with_delayed_deletion_per_index",
    "TestGetNewIndexFailureCountValue": "test_new_index_failure_count",
    "TestGetIndexFailureCount": "test_index_failure_count",
    "TestFirstPendingIndexes": "test_first_pending_indexes",
    "TestAppendDuplicatedIndexPodsForRemoval": "test_active_pods_for_removal",
    "TestPodGenerateNameWithIndex": "test_pod_generate_name_with_index",
    # pod_failure_policy_test.go, success_policy_test.go, backoff_utils_test.go
    "TestMatchPodFailurePolicy": "test_match_pod_failure_policy",
    "TestMatchPodFailurePolicy: FailIndex": "test_fail_index_rule_ends_the_matching",
    "TestMatchSuccessPolicy": "test_match_success_policy",
    "TestNewBackoffRecord": "test_backoff_record",
    "TestGetFinishedTime": "test_finished_time",
    "TestGetRemainingBackoffTime": "test_remaining_backoff_time",
    "TestGetRemainingBackoffTimePerIndex": "test_remaining_backoff_time_per_index",
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
