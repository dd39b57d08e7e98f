"""Coverage of upstream's tests of ``pkg/controller/deployment``.

Read in stored public copies, the newest of which (``util/deployment_util_test.go``) is of about v1.35 and the others of
v1.31 and earlier; v1.36 itself could not be picked there.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import NOT, Cases, missing

_ADOPT = "test_matching_orphans_are_adopted_and_others_released"
_OWN = "test_deployments_with_overlapping_selectors_keep_their_own_replica_sets"
_RECREATE = "test_recreate_waits_for_the_last_old_pod"
_FRACTION = "test_replica_set_fraction"
_CONDITIONS = "test_changed_status_sets_the_transition_time_and_moves_last"
_EMPTY = NOT + "the API server refuses a selector that is empty, and whom it would select is never asked"
_POINTER = NOT + "it is about a helper of Go; what is asked of lists here is in the test of the story that needs it"

COVERED: Cases = {
    # deployment_controller_test.go
    "TestSyncDeploymentCreatesReplicaSet": "test_deployment_creates_its_replica_set",
    "TestSyncDeploymentDontDoAnythingDuringDeletion": "test_terminating_deployment_only_syncs_its_status",
    "TestSyncDeploymentDeletionRace": "test_deployment_deleted_on_the_server_adopts_nothing",
    "TestDontSyncDeploymentsWithEmptyPodSelector": _EMPTY,
    "TestReentrantRollback": "test_requested_rollback_is_performed_once",
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
    "TestUpdateReplicaSetChangeControllerRef": "test_changed_controller_ref_enqueues_both_deployments",
    "TestUpdateReplicaSetRelease": "test_replica_set_without_owner_is_readopted",
    "TestDeleteReplicaSet": "test_deleted_replica_set_is_recreated",
    "TestDeleteReplicaSetOrphan": "test_deletion_of_an_orphan_replica_set_enqueues_nothing",
    # sync_test.go
    "TestScale": "test_scale_proportionally",
    "TestScale: change both surge and size": "test_change_of_surge_and_size",
    "TestScale: failed rs update": "test_replica_set_that_was_not_updated_is_scaled_later",
    "TestDeploymentController_cleanupDeployment": "test_cleanup_deployment",
    "TestDeploymentController_cleanupDeploymentOrder": "test_cleanup_deployment",
    # progress_test.go
    "TestRequeueStuckDeployment": "test_requeue_stuck_deployment",
    "TestSyncRolloutStatus": "test_progressing_condition",
    "TestSyncRolloutStatus: complete": "test_complete_condition",
    "TestSyncRolloutStatus: timed out": "test_deadline_exceeded_condition",
    # recreate_test.go
    "TestScaleDownOldReplicaSets": "test_recreate_scales_down_waits_creates_and_scales_up",
    "TestOldPodsRunning": "test_old_pods_running",
    # rolling_test.go
    "TestDeploymentController_reconcileNewReplicaSet": "test_reconcile_new_replica_set",
    "TestDeploymentController_reconcileOldReplicaSets": "test_reconcile_old_replica_sets",
    "TestDeploymentController_cleanupUnhealthyReplicas": (
        "test_unhealthy_replicas_of_all_old_replica_sets_are_cleaned_up_first"
    ),
    "TestDeploymentController_scaleDownOldReplicaSetsForRollingUpdate": "test_oldest_replica_set_is_scaled_down_first",
    # util/deployment_util_test.go
    "TestEqualIgnoreHash": "test_equal_ignore_hash",
    "TestFindNewReplicaSet": "test_oldest_replica_set_with_the_template_is_the_new_one",
    "TestFindOldReplicaSets": "test_oldest_replica_set_with_the_template_is_the_new_one",
    "TestGetReplicaCountForReplicaSets": "test_status_replica_counts",
    "TestGetTerminatingReplicaCountForReplicaSets": "test_terminating_replicas",
    "TestResolveFenceposts": "test_resolve_fenceposts",
    "TestNewRSNewReplicas": "test_new_rs_new_replicas",
    "TestGetCondition": _CONDITIONS,
    "TestSetCondition": _CONDITIONS,
    "TestRemoveCondition": _CONDITIONS,
    "TestDeploymentComplete": "test_deployment_complete",
    "TestDeploymentProgressing": "test_deployment_progressing",
    "TestDeploymentTimedOut": "test_deployment_timed_out",
    "TestMinAvailable": "test_resolve_fenceposts",
    "TestMaxUnavailable": "test_resolve_fenceposts",
    "TestGetNonNegativeInt32FromAnnotationVerbose": _FRACTION,
    "TestAnnotationUtils": "test_new_replica_set_annotations",
    "TestReplicasAnnotationsNeedUpdate": "test_all_replica_sets_are_annotated_at_the_same_size",
    "TestGetReplicaSetFraction": _FRACTION,
    "TestGetDeploymentsForReplicaSet": _OWN,
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
