"""The cases of upstream's tests of ``pkg/controller/deployment``, and where each of them is.

Read in stored public copies, the newest of which (``util/deployment_util_test.go``) is of about v1.35 and the others of
v1.31 and earlier; v1.36 itself could not be picked there.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import NOT, Cases, missing

_ADOPT = "test_what_fits_is_adopted_and_what_does_not_any_more_is_let_go"
_OWN = "test_deployments_that_select_the_same_keep_to_their_own"
_RECREATE = "test_recreate_goes_on_when_the_last_old_pod_has_gone_and_not_before"
_FRACTION = "test_a_share"
_CONDITIONS = "test_another_status_is_a_transition_and_moves_to_the_end"
_EMPTY = NOT + "the API server refuses a selector that is empty, and whom it would select is never asked"
_POINTER = NOT + "it is about a helper of Go; what is asked of lists here is in the test of the story that needs it"

COVERED: Cases = {
    # deployment_controller_test.go
    "TestSyncDeploymentCreatesReplicaSet": "test_a_deployment_gets_its_replica_set",
    "TestSyncDeploymentDontDoAnythingDuringDeletion": "test_one_that_is_being_deleted_is_only_reported_on",
    "TestSyncDeploymentDeletionRace": "test_nothing_is_adopted_for_one_that_is_known_to_go_before_the_cache_knows",
    "TestDontSyncDeploymentsWithEmptyPodSelector": _EMPTY,
    "TestReentrantRollback": "test_a_requested_rollback_is_done_once",
    "TestPodDeletionEnqueuesRecreateDeployment": _RECREATE,
    "TestPodDeletionDoesntEnqueueRecreateDeployment": _RECREATE,
    "TestPodDeletionPartialReplicaSetOwnershipEnqueueRecreateDeployment": _RECREATE,
    "TestPodDeletionPartialReplicaSetOwnershipDoesntEnqueueRecreateDeployment": _RECREATE,
    "TestGetReplicaSetsForDeployment": _OWN,
    "TestGetReplicaSetsForDeploymentAdoptRelease": _ADOPT,
    "TestGetPodMapForReplicaSets": _RECREATE,
    "TestAddReplicaSet": _OWN,
    "TestAddReplicaSetOrphan": _ADOPT,
    "TestUpdateReplicaSet": _OWN,
    "TestUpdateReplicaSetOrphanWithNewLabels": _ADOPT,
    "TestUpdateReplicaSetChangeControllerRef": "test_one_that_changes_owners_enqueues_both",
    "TestUpdateReplicaSetRelease": "test_one_that_is_let_go_by_hand_is_taken_up_again",
    "TestDeleteReplicaSet": "test_one_that_was_deleted_is_made_again",
    "TestDeleteReplicaSetOrphan": "test_the_deletion_of_another_owners_set_enqueues_nothing",
    # sync_test.go
    "TestScale": "test_rescaling",
    "TestScale: change both surge and size": "test_another_surge_and_another_size_at_once",
    "TestScale: failed rs update": "test_one_that_was_not_written_is_made_up_for",
    "TestDeploymentController_cleanupDeployment": "test_clean_up",
    "TestDeploymentController_cleanupDeploymentOrder": "test_clean_up",
    # progress_test.go
    "TestRequeueStuckDeployment": "test_when_to_sync_again",
    "TestSyncRolloutStatus": "test_progress",
    "TestSyncRolloutStatus: complete": "test_done",
    "TestSyncRolloutStatus: timed out": "test_late",
    # recreate_test.go
    "TestScaleDownOldReplicaSets": "test_recreate_empties_waits_makes_and_fills",
    "TestOldPodsRunning": "test_old_pods_left",
    # rolling_test.go
    "TestDeploymentController_reconcileNewReplicaSet": "test_the_new_one_grows",
    "TestDeploymentController_reconcileOldReplicaSets": "test_the_old_one_shrinks",
    "TestDeploymentController_cleanupUnhealthyReplicas": (
        "test_unavailable_pods_of_every_old_one_go_before_available_ones"
    ),
    "TestDeploymentController_scaleDownOldReplicaSetsForRollingUpdate": "test_the_oldest_goes_first",
    # util/deployment_util_test.go
    "TestEqualIgnoreHash": "test_same_templates",
    "TestFindNewReplicaSet": "test_of_several_of_its_template_the_oldest_is_the_new_one",
    "TestFindOldReplicaSets": "test_of_several_of_its_template_the_oldest_is_the_new_one",
    "TestGetReplicaCountForReplicaSets": "test_sums",
    "TestGetTerminatingReplicaCountForReplicaSets": "test_terminating",
    "TestResolveFenceposts": "test_bounds",
    "TestNewRSNewReplicas": "test_the_new_ones_size",
    "TestGetCondition": _CONDITIONS,
    "TestSetCondition": _CONDITIONS,
    "TestRemoveCondition": _CONDITIONS,
    "TestDeploymentComplete": "test_complete",
    "TestDeploymentProgressing": "test_progressing",
    "TestDeploymentTimedOut": "test_timed_out",
    "TestMinAvailable": "test_bounds",
    "TestMaxUnavailable": "test_bounds",
    "TestGetNonNegativeInt32FromAnnotationVerbose": _FRACTION,
    "TestAnnotationUtils": "test_annotations_of_the_new_one",
    "TestReplicasAnnotationsNeedUpdate": "test_all_are_annotated_also_at_the_same_size",
    "TestGetReplicaSetFraction": _FRACTION,
    "TestGetDeploymentsForReplicaSet": _OWN,
}


def test_no_upstream_case_is_missing() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
