"""Coverage of upstream's tests of ``pkg/controller/statefulset``.

``COVERED`` maps upstream's tests, or parts of those that have several, to our test functions. It was written manually
from upstream's files, and is not compared with them.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import NOT, Cases, missing

_ORDERED = "test_ordered_ready_creates_pods_one_by_one"
_CONDEMNED = "test_ordered_ready_scales_down_one_by_one"
_UPDATE = "test_rolling_update_starts_at_the_highest_ordinal"
_BOUND = "test_max_unavailable_bounds_an_update"
_REFUSED = "test_failed_creation_emits_an_event_and_is_retried"
_MADE = "test_pods_and_claims_are_created_with_events"
_START = "test_start_ordinal"
_RETENTION = "test_claim_owner_references_by_policy"
_CLAIMS = "test_claims_follow_the_retention_policy"
_STATUS_FAILS = "test_failed_status_update_is_retried"
_REPAIR = "test_removed_pod_labels_are_restored"
_NAMES = "test_is_member_of"
_AVAILABLE = "test_scaling_waits_for_available_pods"
_STRANGERS = "test_pods_with_other_names_are_ignored_or_released"
_WOKEN = NOT + "the handlers are those of all owners of pods: tests/controllers/daemonset/test_events.py and its like"

COVERED: Cases = {
    # stateful_set_control_test.go
    "TestStatefulSetControl: CreatesPods": _ORDERED,
    "TestStatefulSetControl: ScalesUp": _ORDERED,
    "TestStatefulSetControl: ScalesDown": _CONDEMNED,
    "TestStatefulSetControl: ReplacesPods": _ORDERED,
    "TestStatefulSetControl: RecreatesFailedPod": _ORDERED,
    "TestStatefulSetControl: RecreatesSucceededPod": _ORDERED,
    "TestStatefulSetControl: RecreatesFailedPodWithDeleteFailure": "test_failed_deletion_emits_an_event",
    "TestStatefulSetControl: RecreatesSucceededPodWithDeleteFailure": "test_failed_deletion_emits_an_event",
    "TestStatefulSetControl: CreatePodFailure": _REFUSED,
    "TestStatefulSetControl: UpdatePodFailure": _REPAIR,
    "TestStatefulSetControl: UpdateSetStatusFailure": _STATUS_FAILS,
    "TestStatefulSetControl: NewRevisionDeletePodFailure": "test_history_is_truncated_if_the_sync_fails",
    "TestStatefulSetControl: RecreatesPVCForPendingPod": "test_missing_claims_of_a_pending_pod_are_created",
    "TestStatefulSetControlScaleDownDeleteError": "test_failed_deletion_emits_an_event",
    "TestStatefulSetControl_getSetRevisions": "test_rollback_updates_the_revision_number_after_conflicts",
    "TestStatefulSetControl_getSetRevisions: collision": "test_revision_name_collision_uses_the_next_hash",
    "TestStatefulSetControlRollingUpdate": _UPDATE,
    "TestStatefulSetControlOnDeleteUpdate": "test_on_delete_replaces_no_pods",
    "TestStatefulSetControlRollingUpdateWithMaxUnavailable": _BOUND,
    "TestStatefulSetControlRollingUpdateWithMaxUnavailableInOrderedModeVerifyInvariant": _BOUND,
    "TestStatefulSetControlRollingUpdateWithPartition": _UPDATE,
    "TestStatefulSetHonorRevisionHistoryLimit": "test_history_limit_deletes_unused_revisions",
    "TestStatefulSetControlLimitsHistory": "test_history_is_truncated_if_the_sync_fails",
    "TestStatefulSetControlRollback": "test_rollback_updates_the_revision_number_after_conflicts",
    "TestStatefulSetControlWithStartOrdinal": _START,
    "TestStatefulSetAvailability": _AVAILABLE,
    "TestStatefulSetStatusUpdate": "test_changed_count_is_written",
    # stateful_set_utils_test.go
    "TestGetParentNameAndOrdinal": "test_parent_name_and_ordinal",
    "TestGetParentName": "test_parent_name_and_ordinal",
    "TestGetOrdinal": "test_parent_name_and_ordinal",
    "TestIsMemberOf": _NAMES,
    "TestIdentityMatches": "test_identity_matches",
    "TestStorageMatches": "test_storage_matches",
    "TestUpdateIdentity": "test_update_identity_and_storage",
    "TestUpdateStorage": "test_update_identity_and_storage",
    "TestGetPersistentVolumeClaimRetentionPolicy": "test_retention_policy_defaults",
    "TestMatchesRef": "test_has_stale_owner_ref",
    "TestIsClaimOwnerUpToDate": _RETENTION,
    "TestClaimOwnerUpToDateEdgeCases": "test_claim_of_a_previous_set_is_unchanged",
    "TestUpdateClaimOwnerRefForSetAndPod": _RETENTION,
    "TestUpdateClaimControllerRef": "test_non_controller_owner_references_are_replaced",
    "TestHasOwnerRef": _RETENTION,
    "TestHasUnexpectedController": "test_has_unexpected_controller",
    "TestHasStaleOwnerRef": "test_has_stale_owner_ref",
    "TestIsRunningAndReady": "test_pods_are_counted",
    "TestAscendingOrdinal": "test_replicas_and_condemned_pods",
    "TestOverlappingStatefulSets": NOT + "nothing sorts StatefulSets; the controller reference decides",
    "TestNewPodControllerRef": "test_new_pod_from_template",
    "TestCreateApplyRevision": "test_apply_revision",
    "TestRollingUpdateApplyRevision": "test_rollback_updates_the_revision_number_after_conflicts",
    "TestGetPersistentVolumeClaims": "test_persistent_volume_claims",
    "TestGetStatefulSetMaxUnavailable": "test_max_unavailable_is_rounded_down_to_at_least_one",
    "BenchmarkUpdateStatefulSet": NOT + "a benchmark; revisions are decoded once, see lru_cache in revisions.py",
    # stateful_pod_control_test.go
    "TestStatefulPodControlCreatesPods": _MADE,
    "TestStatefulPodControlCreatePodExists": "test_existing_pod_emits_no_event",
    "TestStatefulPodControlCreatePodPvcCreateFailure": _REFUSED,
    "TestStatefulPodControlCreatePodPVCDeleting": "test_terminating_claim_is_awaited",
    "TestStatefulPodControlCreatePodPvcGetFailure": NOT + "a cache of ours cannot fail to be read",
    "TestStatefulPodControlCreatePodFailed": _REFUSED,
    "TestStatefulPodControlNoOpUpdate": "test_identity_matches",
    "TestStatefulPodControlUpdatesIdentity": _REPAIR,
    "TestStatefulPodControlUpdateIdentityFailure": _REPAIR,
    "TestStatefulPodControlUpdatesPodStorage": "test_identity_and_storage_are_updated",
    "TestStatefulPodControlUpdatePodStorageFailure": _REFUSED,
    "TestStatefulPodControlUpdatePodConflictSuccess": _REPAIR,
    "TestStatefulPodControlDeletesStatefulPod": _MADE,
    "TestStatefulPodControlDeleteFailure": "test_failed_deletion_emits_an_event",
    "TestStatefulPodControlClaimsMatchDeletionPolcy": _CLAIMS,
    "TestStatefulPodControlUpdatePodClaimForRetentionPolicy": _CLAIMS,
    "TestPodClaimIsStale": "test_stale_claim_of_the_previous_pod_is_awaited",
    "TestStatefulPodControlRetainDeletionPolicyUpdate": _CLAIMS,
    "TestStatefulPodControlRetentionPolicyUpdate": _CLAIMS,
    "TestStatefulPodControlRetentionPolicyUpdateMissingClaims": _CLAIMS,
    # stateful_set_test.go
    "TestStatefulSetControllerCreates": _MADE,
    "TestStatefulSetControllerDeletes": _MADE,
    "TestStatefulSetControllerRespectsTermination": _CONDEMNED,
    "TestStatefulSetControllerBlocksScaling": _ORDERED,
    "TestStatefulSetControllerDeletionTimestamp": "test_terminating_set_only_updates_its_status",
    "TestStatefulSetControllerDeletionTimestampRace": (
        "test_owner_with_a_deletion_timestamp_on_the_server_adopts_nothing"
    ),
    "TestStatefulSetControllerAddPod": _WOKEN,
    "TestStatefulSetControllerUpdatePod": _WOKEN,
    "TestStatefulSetControllerDeletePod": _WOKEN,
    "TestStatefulSetControllerGetStatefulSetsForPod": _STRANGERS,
    "TestGetPodsForStatefulSetAdopt": _STRANGERS,
    "TestAdoptOrphanRevisions": NOT
    + "heard with kubectl: is_orphaned_and_adopted of tests/clients/test_statefulset.py",
    "TestGetPodsForStatefulSetRelease": _STRANGERS,
    "TestOrphanedPodsWithPVCDeletePolicy": _CLAIMS,
    "TestStaleOwnerRefOnScaleup": _CLAIMS,
    # stateful_set_status_updater_test.go
    "TestStatefulSetStatusUpdater: updates status": _MADE,
    "TestStatefulSetStatusUpdater: updates observed generation": "test_changed_generation_is_written",
    "TestStatefulSetStatusUpdater: updates available replicas": "test_changed_count_is_written",
    "TestStatefulSetStatusUpdater: update replicas server failure": _STATUS_FAILS,
    "TestStatefulSetStatusUpdater: update replicas conflict persists": _STATUS_FAILS,
    "TestStatefulSetStatusUpdaterUpdateReplicasConflict": "test_status_conflict_is_retried",
    "TestStatefulSetStatusUpdaterConsistencyStore": "test_stale_cache_delays_the_sync",
    # test/integration/statefulset/statefulset_test.go
    "TestStatefulSetStartOrdinal": "test_partition_is_relative_to_the_start_ordinal",
    # stateful_set_compatibility_test.go
    "TestStatefulSetCompatibility": "test_revisions_differing_by_defaults_are_equal",
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
