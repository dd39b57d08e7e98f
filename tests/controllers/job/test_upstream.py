"""The cases of upstream's tests of ``pkg/controller/job``, and where each of them is.

``job_controller_test.go`` was read in a stored public copy of about v1.31; v1.36 itself could not be picked there. Rows
of its tables are ids of the function that the table belongs to.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import Cases, missing

_WIRING = "test_what_fits_is_adopted_with_the_finalizer"
_SIZE = "test_which_pods_to_make_and_to_remove"
_END = "test_how_it_ends"
_COUNT = "test_counting"
_CALM = "test_a_change_of_the_spec_is_synced_at_once_and_changes_of_pods_are_gathered"
_ORPHAN = "test_finalizers_of_orphans"
_RELEASE = "test_what_does_not_fit_any_more_is_let_go_without_the_finalizer"
_EXACT = "test_completions_are_exact_whatever_fails"

COVERED: Cases = {
    # job_controller_test.go
    "TestControllerSyncJob": _SIZE,
    "TestControllerSyncJob: indexed Jobs": "test_which_indexes",
    "TestControllerSyncJob: indexed job with some pods deleted": "test_an_index_whose_pod_goes",
    "TestControllerSyncJob: job finish, WQ job finishing": "test_when_it_is_complete",
    "TestControllerSyncJob: terminating pods": "test_whether_a_pod_that_goes_has_failed",
    "TestGetNewFinshedPods": "test_what_has_ended",
    "TestTrackJobStatusAndRemoveFinalizers": _COUNT,
    "TestTrackJobStatusAndRemoveFinalizers: pod patch errors with partial success": (
        "test_what_could_not_be_released_is_not_counted_yet"
    ),
    "TestTrackJobStatusAndRemoveFinalizers: deleted job": (
        "test_of_a_deleted_job_all_finalizers_go_and_what_runs_has_not_failed"
    ),
    "TestTrackJobStatusAndRemoveFinalizers: indexed": "test_counting_indexes",
    "TestTrackJobStatusAndRemoveFinalizers: JobBackoffLimitPerIndex": "test_counting_with_a_limit_per_index",
    "TestTrackJobStatusAndRemoveFinalizers: condition is delayed": "test_when_it_has_ended",
    "TestSyncJobPastDeadline": _END,
    "TestPastDeadlineJobFinished": "test_a_deadline_ends_a_job",
    "TestSingleJobFailedCondition": "test_a_job_that_has_ended",
    "TestSyncJobComplete": "test_a_job_that_has_ended",
    "TestSyncJobDeleted": "test_pods_lose_their_finalizer_when_their_job_goes",
    "TestSyncJobWhenManagedBy": "test_a_job_of_another_controller_is_left_alone",
    "TestSyncJobWithJobPodFailurePolicy": _END,
    "TestSyncJobWithJobPodFailurePolicy: metrics": "test_actions_of_the_policy_are_counted_once_for_each_pod",
    "TestSyncJobWithJobSuccessPolicy": _END,
    "TestSyncJobWithJobBackoffLimitPerIndex": _END,
    "TestSyncJobUpdateRequeue": "test_a_failure_is_tried_again_later_each_time",
    "TestUpdateJobRequeue": _CALM,
    "TestGetPodCreationInfoForIndependentIndexes": "test_each_index_waits_for_itself",
    "TestJobPodLookup": "test_a_deleted_orphan_enqueues_nothing_and_ones_own_pod_is_replaced",
    "TestGetPodsForJob": _WIRING,
    "TestGetPodsForJob: no adopt when deleting": "test_a_job_that_is_being_deleted_adopts_nothing",
    "TestGetPodsForJob: release": _RELEASE,
    "TestAddPod": _EXACT,
    "TestAddPodOrphan": _WIRING,
    "TestUpdatePod": _EXACT,
    "TestUpdatePodOrphanWithNewLabels": _RELEASE,
    "TestUpdatePodChangeControllerRef": "test_one_that_changes_owners_enqueues_both",
    "TestUpdatePodRelease": "test_one_that_is_let_go_by_hand_is_taken_up_again",
    "TestDeletePod": "test_a_deleted_orphan_enqueues_nothing_and_ones_own_pod_is_replaced",
    "TestDeletePodOrphan": "test_a_deleted_orphan_enqueues_nothing_and_ones_own_pod_is_replaced",
    "TestSyncJobExpectations": _EXACT,
    "TestWatchJobs": "test_four_of_two_at_a_time",
    "TestWatchPods": "test_four_of_two_at_a_time",
    "TestWatchOrphanPods": "test_pods_lose_their_finalizer_when_their_job_goes",
    "TestSyncOrphanPod": _ORPHAN,
    "TestJobApiBackoffReset": "test_a_failure_is_tried_again_later_each_time",
    "TestJobBackoff": _CALM,
    "TestJobBackoffForOnFailure": _END,
    "TestJobBackoffOnRestartPolicyNever": _END,
    "TestEnsureJobConditions": "test_conditions",
    "TestFinalizersRemovedExpectations": _EXACT,
    "TestFinalizerCleanup": _ORPHAN,
    "TestJobPodReplacementPolicy": "test_why_pods_are_made",
    # indexed_job_utils_test.go
    "TestCalculateSucceededIndexes": "test_texts_and_sets",
    "TestIntervalsHaveIndex": "test_texts_and_sets",
    "TestIsIndexFailed": "test_failed_indexes",
    "TestCalculateFailedIndexes": "test_failed_indexes",
    "TestGetPodsWithDelayedDeletionPerIndex": "test_who_is_kept_for_its_index",
    "TestGetNewIndexFailureCountValue": "test_the_failures_that_the_next_pod_notes",
    "TestGetIndexFailureCount": "test_the_failures_that_a_pod_notes",
    "TestFirstPendingIndexes": "test_the_lowest_that_are_missing",
    "TestAppendDuplicatedIndexPodsForRemoval": "test_who_goes",
    "TestPodGenerateNameWithIndex": "test_long_names_are_cut_before_the_index",
    # pod_failure_policy_test.go, success_policy_test.go, backoff_utils_test.go
    "TestMatchPodFailurePolicy": "test_what_becomes_of_a_failed_pod",
    "TestMatchPodFailurePolicy: FailIndex": "test_a_rule_that_fails_an_index_is_the_last_that_is_read",
    "TestMatchSuccessPolicy": "test_which_rule_is_met",
    "TestNewBackoffRecord": "test_failures_in_a_row",
    "TestGetFinishedTime": "test_when_a_pod_ended",
    "TestGetRemainingBackoffTime": "test_the_wait_after_failures",
    "TestGetRemainingBackoffTimePerIndex": "test_the_wait_of_an_index",
}


def test_no_upstream_case_is_missing() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
