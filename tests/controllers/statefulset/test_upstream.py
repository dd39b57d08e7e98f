"""The cases of ``pkg/controller/statefulset``, and where each of them is.

``COVERED`` names for upstream's tests, and for the parts of those that hold several, the function of ours that has it.
The list was written down by hand; most of its names were looked up in upstream's files,
and nothing compares them any more.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import NOT, Cases, missing

_ORDERED = "test_ordered_pods_are_attended_to_one_after_the_other"
_CONDEMNED = "test_ordered_pods_that_are_too_many_go_one_after_the_other"
_UPDATE = "test_an_update_goes_from_the_top_down"
_BOUND = "test_max_unavailable_bounds_an_update"
_REFUSED = "test_what_cannot_be_created_is_reported_and_retried"
_MADE = "test_pods_and_claims_are_created_with_events"
_START = "test_ordinals_begin_at_their_start"
_RETENTION = "test_a_claim_has_the_owners_of_its_policy"
_CLAIMS = "test_claims_follow_the_retention_policy"
_STATUS_FAILS = "test_a_status_that_cannot_be_written_is_tried_again"
_REPAIR = "test_labels_that_were_taken_off_are_put_back"
_NAMES = "test_who_belongs_to_whom"
_AVAILABLE = "test_pods_are_waited_for_until_they_are_available"
_STRANGERS = "test_pods_whose_name_does_not_fit_are_left_alone_or_let_go"
_WOKEN = NOT + "the handlers are those of all owners of pods: tests/controllers/daemonset/test_events.py and its like"

COVERED: Cases = {
    # stateful_set_control_test.go
    "TestStatefulSetControl: CreatesPods": _ORDERED,
    "TestStatefulSetControl: ScalesUp": _ORDERED,
    "TestStatefulSetControl: ScalesDown": _CONDEMNED,
    "TestStatefulSetControl: ReplacesPods": _ORDERED,
    "TestStatefulSetControl: RecreatesFailedPod": _ORDERED,
    "TestStatefulSetControl: RecreatesSucceededPod": _ORDERED,
    "TestStatefulSetControl: RecreatesFailedPodWithDeleteFailure": "test_a_pod_that_cannot_be_deleted_is_reported",
    "TestStatefulSetControl: RecreatesSucceededPodWithDeleteFailure": "test_a_pod_that_cannot_be_deleted_is_reported",
    "TestStatefulSetControl: CreatePodFailure": _REFUSED,
    "TestStatefulSetControl: UpdatePodFailure": _REPAIR,
    "TestStatefulSetControl: UpdateSetStatusFailure": _STATUS_FAILS,
    "TestStatefulSetControl: NewRevisionDeletePodFailure": "test_history_is_truncated_also_when_a_sync_fails",
    "TestStatefulSetControl: RecreatesPVCForPendingPod": "test_a_pending_pod_gets_the_claims_that_it_lacks",
    "TestStatefulSetControlScaleDownDeleteError": "test_a_pod_that_cannot_be_deleted_is_reported",
    "TestStatefulSetControl_getSetRevisions": "test_an_old_template_gets_the_next_number_also_after_conflicts",
    "TestStatefulSetControl_getSetRevisions: collision": "test_a_name_that_is_taken_leads_to_the_next_hash",
    "TestStatefulSetControlRollingUpdate": _UPDATE,
    "TestStatefulSetControlOnDeleteUpdate": "test_on_delete_replaces_nothing",
    "TestStatefulSetControlRollingUpdateWithMaxUnavailable": _BOUND,
    "TestStatefulSetControlRollingUpdateWithMaxUnavailableInOrderedModeVerifyInvariant": _BOUND,
    "TestStatefulSetControlRollingUpdateWithPartition": _UPDATE,
    "TestStatefulSetHonorRevisionHistoryLimit": "test_unused_revisions_over_the_limit_are_deleted",
    "TestStatefulSetControlLimitsHistory": "test_history_is_truncated_also_when_a_sync_fails",
    "TestStatefulSetControlRollback": "test_an_old_template_gets_the_next_number_also_after_conflicts",
    "TestStatefulSetControlWithStartOrdinal": _START,
    "TestStatefulSetAvailability": _AVAILABLE,
    "TestStatefulSetStatusUpdate": "test_a_number_that_differs_is_written",
    # stateful_set_utils_test.go
    "TestGetParentNameAndOrdinal": "test_parent_and_ordinal_of_a_name",
    "TestGetParentName": "test_parent_and_ordinal_of_a_name",
    "TestGetOrdinal": "test_parent_and_ordinal_of_a_name",
    "TestIsMemberOf": _NAMES,
    "TestIdentityMatches": "test_a_pod_that_is_as_it_should_be_is_not_written",
    "TestStorageMatches": "test_volumes_are_those_of_the_own_claims",
    "TestUpdateIdentity": "test_a_pod_is_written_with_its_labels_and_volumes",
    "TestUpdateStorage": "test_a_pod_is_written_with_its_labels_and_volumes",
    "TestGetPersistentVolumeClaimRetentionPolicy": "test_the_policy_of_a_spec",
    "TestMatchesRef": "test_references_to_earlier_objects_are_stale",
    "TestIsClaimOwnerUpToDate": _RETENTION,
    "TestClaimOwnerUpToDateEdgeCases": "test_what_goes_with_an_earlier_one_is_left_alone",
    "TestUpdateClaimOwnerRefForSetAndPod": _RETENTION,
    "TestUpdateClaimControllerRef": "test_owners_that_are_no_controllers_are_replaced",
    "TestHasOwnerRef": _RETENTION,
    "TestHasUnexpectedController": "test_who_is_not_expected_to_rule",
    "TestHasStaleOwnerRef": "test_references_to_earlier_objects_are_stale",
    "TestIsRunningAndReady": "test_pods_are_counted",
    "TestAscendingOrdinal": "test_pods_stand_in_their_places",
    "TestOverlappingStatefulSets": NOT + "nothing sorts StatefulSets; the controller reference decides",
    "TestNewPodControllerRef": "test_a_pod_is_its_template_under_its_own_name",
    "TestCreateApplyRevision": "test_a_revision_brings_its_template_back",
    "TestRollingUpdateApplyRevision": "test_an_old_template_gets_the_next_number_also_after_conflicts",
    "TestGetPersistentVolumeClaims": "test_a_claim_is_its_template_under_the_name_of_its_pod",
    "TestGetStatefulSetMaxUnavailable": "test_max_unavailable_is_rounded_down_but_not_to_nothing",
    "BenchmarkUpdateStatefulSet": NOT + "a benchmark; revisions are decoded once, see lru_cache in revisions.py",
    # stateful_pod_control_test.go
    "TestStatefulPodControlCreatesPods": _MADE,
    "TestStatefulPodControlCreatePodExists": "test_a_pod_that_is_there_already_makes_no_event",
    "TestStatefulPodControlCreatePodPvcCreateFailure": _REFUSED,
    "TestStatefulPodControlCreatePodPVCDeleting": "test_a_claim_on_its_way_out_is_waited_for",
    "TestStatefulPodControlCreatePodPvcGetFailure": NOT + "a cache of ours cannot fail to be read",
    "TestStatefulPodControlCreatePodFailed": _REFUSED,
    "TestStatefulPodControlNoOpUpdate": "test_a_pod_that_is_as_it_should_be_is_not_written",
    "TestStatefulPodControlUpdatesIdentity": _REPAIR,
    "TestStatefulPodControlUpdateIdentityFailure": _REPAIR,
    "TestStatefulPodControlUpdatesPodStorage": "test_labels_and_volumes_are_put_right",
    "TestStatefulPodControlUpdatePodStorageFailure": _REFUSED,
    "TestStatefulPodControlUpdatePodConflictSuccess": _REPAIR,
    "TestStatefulPodControlDeletesStatefulPod": _MADE,
    "TestStatefulPodControlDeleteFailure": "test_a_pod_that_cannot_be_deleted_is_reported",
    "TestStatefulPodControlClaimsMatchDeletionPolcy": _CLAIMS,
    "TestStatefulPodControlUpdatePodClaimForRetentionPolicy": _CLAIMS,
    "TestPodClaimIsStale": "test_a_claim_of_the_pod_before_is_not_given_to_a_new_one",
    "TestStatefulPodControlRetainDeletionPolicyUpdate": _CLAIMS,
    "TestStatefulPodControlRetentionPolicyUpdate": _CLAIMS,
    "TestStatefulPodControlRetentionPolicyUpdateMissingClaims": _CLAIMS,
    # stateful_set_test.go
    "TestStatefulSetControllerCreates": _MADE,
    "TestStatefulSetControllerDeletes": _MADE,
    "TestStatefulSetControllerRespectsTermination": _CONDEMNED,
    "TestStatefulSetControllerBlocksScaling": _ORDERED,
    "TestStatefulSetControllerDeletionTimestamp": "test_a_set_that_is_being_deleted_only_reports",
    "TestStatefulSetControllerDeletionTimestampRace": ("test_an_owner_that_is_going_on_the_server_adopts_nothing"),
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
    "TestStatefulSetStatusUpdater: updates observed generation": "test_a_new_generation_is_written",
    "TestStatefulSetStatusUpdater: updates available replicas": "test_a_number_that_differs_is_written",
    "TestStatefulSetStatusUpdater: update replicas server failure": _STATUS_FAILS,
    "TestStatefulSetStatusUpdater: update replicas conflict persists": _STATUS_FAILS,
    "TestStatefulSetStatusUpdaterUpdateReplicasConflict": "test_a_status_that_meets_a_newer_one_is_written_again",
    "TestStatefulSetStatusUpdaterConsistencyStore": "test_an_old_cache_is_not_acted_upon",
    # test/integration/statefulset/statefulset_test.go
    "TestStatefulSetStartOrdinal": "test_the_partition_counts_from_the_first_ordinal",
    # stateful_set_compatibility_test.go
    "TestStatefulSetCompatibility": "test_what_differs_only_by_defaults_means_the_same",
}


def test_every_case_has_its_place() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
