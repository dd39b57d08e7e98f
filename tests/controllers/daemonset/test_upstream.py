"""Coverage of upstream's tests of v1.36 ``pkg/controller/daemon`` and ``pkg/controller/history``.

``COVERED`` names for every upstream test, and for the rows of its tables, the function of ours that has it. What v1.36
added with its consistency store is in ``test_faults`` and ``tests/runtime``.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import NOT, Cases, missing

_FITS = "test_node_should_run_daemon_pod"
_NEEDS = "test_pods_should_be_on_node"
_PLAIN = "test_max_unavailable_bounds_deleted_old_pods"
_BOUNDS = "test_percentages_are_scaled_to_the_number_of_nodes"
_HANDLERS = "test_events_enqueue_matching_daemon_sets"
_PINNED = "test_pod_has_node_affinity_to_its_node"
_STS = NOT + "for StatefulSets only; a DaemonSet makes and names its revisions itself, see TestDaemonSet*"
_FAKE = NOT + "it tests a fake that upstream's other tests use; ours use the API server"

COVERED: Cases = {
    # daemon_controller_test.go
    "TestDeleteFinalStateUnknown": _HANDLERS,
    "TestExpectationsOnRecreate": "test_recreated_set_has_no_expectations_of_its_predecessor",
    "TestSimpleDaemonSetLaunchesPods": "test_every_node_gets_a_pod_and_is_counted_in_the_status",
    "TestSimpleDaemonSetScheduleDaemonSetPodsLaunchesPods": "test_pods_have_node_affinity_and_no_node_name",
    "TestSimpleDaemonSetPodCreateErrors": "test_slow_start_stops_when_the_quota_is_exceeded",
    "TestDaemonSetPodCreateExpectationsError": "test_slow_start_stops_when_the_quota_is_exceeded",
    "TestSimpleDaemonSetUpdatesStatusAfterLaunchingPods": "test_every_node_gets_a_pod_and_is_counted_in_the_status",
    "TestSimpleDaemonSetUpdatesStatusError: sync error": "test_first_of_two_errors_is_raised",
    "TestSimpleDaemonSetUpdatesStatusError: status error": "test_first_of_two_errors_is_raised",
    "TestSimpleDaemonSetUpdatesStatusError: sync and status error": "test_first_of_two_errors_is_raised",
    "TestNoNodesDoesNothing": "test_no_pods_without_nodes",
    "TestOneNodeDaemonLaunchesPod": _FITS,
    "TestNotReadyNodeDaemonDoesLaunchPod": "test_node_conditions_resources_and_ports_are_ignored",
    "TestInsufficientCapacityNodeDaemonDoesNotUnscheduleRunningPod": (
        "test_node_conditions_resources_and_ports_are_ignored"
    ),
    "TestInsufficientCapacityNodeSufficientCapacityWithNodeLabelDaemonLaunchPod": (
        "test_node_conditions_resources_and_ports_are_ignored"
    ),
    "TestNetworkUnavailableNodeDaemonLaunchesPod": "test_node_conditions_resources_and_ports_are_ignored",
    "TestDontDoAnythingIfBeingDeleted": "test_terminating_set_creates_no_pods",
    "TestDontDoAnythingIfBeingDeletedRace": "test_owner_with_a_deletion_timestamp_on_the_server_adopts_nothing",
    "TestPortConflictWithSameDaemonPodDoesNotDeletePod": "test_node_conditions_resources_and_ports_are_ignored",
    "TestNoPortConflictNodeDaemonLaunchesPod": "test_node_conditions_resources_and_ports_are_ignored",
    "TestPodIsNotDeletedByDaemonsetWithEmptyLabelSelector": "test_empty_selector_creates_no_pods",
    "TestDealsWithExistingPods": "test_existing_pods_are_adopted_released_or_deleted",
    "TestSelectorDaemonLaunchesPods": _FITS,
    "TestSelectorDaemonDeletesUnselectedPods": "test_existing_pods_are_adopted_released_or_deleted",
    "TestSelectorDaemonDealsWithExistingPods": "test_existing_pods_are_adopted_released_or_deleted",
    "TestBadSelectorDaemonDoesNothing": _FITS,
    "TestNameDaemonSetLaunchesPods": _FITS,
    "TestBadNameDaemonSetDoesNothing": _FITS,
    "TestNameAndSelectorDaemonSetLaunchesPods": _FITS,
    "TestInconsistentNameSelectorDaemonSetDoesNothing": _FITS,
    "TestSelectorDaemonSetLaunchesPods": _FITS,
    "TestNodeAffinityDaemonLaunchesPods": _FITS,
    "TestNumberReadyStatus": "test_node_is_counted_by_its_oldest_pod",
    "TestObservedGeneration": "test_observed_generation_is_updated_after_the_sync",
    "TestDaemonKillFailedPods: normal": _NEEDS,
    "TestDaemonKillFailedPods: no pods": _NEEDS,
    "TestDaemonKillFailedPods: 1 failed pod, 0 normal pod": _NEEDS,
    "TestDaemonKillFailedPods: 1 failed pod, 3 normal pods": _NEEDS,
    "TestDaemonKillFailedPodsBackoff": "test_failed_pods_are_deleted_with_backoff",
    "TestNoScheduleTaintedDoesntEvicitRunningIntolerantPod": _FITS,
    "TestNoExecuteTaintedDoesEvicitRunningIntolerantPod": _FITS,
    "TestTaintedNodeDaemonDoesNotLaunchIntolerantPod": _FITS,
    "TestTaintedNodeDaemonLaunchesToleratePod": _FITS,
    "TestNotReadyNodeDaemonLaunchesPod": _FITS,
    "TestUnreachableNodeDaemonLaunchesPod": _FITS,
    "TestNodeDaemonLaunchesToleratePod": _FITS,
    "TestDaemonSetRespectsTermination": _NEEDS,
    "TestTaintPressureNodeDaemonLaunchesPod": _FITS,
    "TestNodeShouldRunDaemonPod: ShouldRunDaemonPod (four rows)": _FITS,
    "TestNodeShouldRunDaemonPod: InsufficientResourceError (two rows)": (
        "test_node_conditions_resources_and_ports_are_ignored"
    ),
    "TestNodeShouldRunDaemonPod: ErrPodNotMatchHostName": _FITS,
    "TestNodeShouldRunDaemonPod: ErrPodNotFitsHostPorts": "test_node_conditions_resources_and_ports_are_ignored",
    "TestNodeShouldRunDaemonPod: ErrNodeSelectorNotMatch": _FITS,
    "TestNodeShouldRunDaemonPod: ErrPodAffinityNotMatch": _FITS,
    "TestNodeShouldRunDaemonPod: ShouldRunDaemonPodOnUnschedulableNode": _FITS,
    "TestUpdateNode: Nothing changed, should not enqueue": "test_only_label_and_taint_updates_of_a_node_enqueue",
    "TestUpdateNode: Node labels changed": "test_only_label_and_taint_updates_of_a_node_enqueue",
    "TestUpdateNode: Node taints changed": "test_only_label_and_taint_updates_of_a_node_enqueue",
    "TestUpdateNode: Node Allocatable changed": "test_only_label_and_taint_updates_of_a_node_enqueue",
    "TestDeleteNoDaemonPod (three rows)": _HANDLERS,
    "TestDeleteUnscheduledPodForNotExistingNode": _NEEDS,
    "TestGetNodesToDaemonPods: exclude deleted terminal pods": "test_get_nodes_to_daemon_pods",
    "TestGetNodesToDaemonPods: include deleted terminal pods": "test_get_nodes_to_daemon_pods",
    "TestAddNode": "test_only_label_and_taint_updates_of_a_node_enqueue",
    "TestAddPod": _HANDLERS,
    "TestAddPodOrphan": _HANDLERS,
    "TestUpdatePod": _HANDLERS,
    "TestUpdatePodOrphanSameLabels": _HANDLERS,
    "TestUpdatePodOrphanWithNewLabels": _HANDLERS,
    "TestUpdatePodChangeControllerRef": _HANDLERS,
    "TestUpdatePodControllerRefRemoved": _HANDLERS,
    "TestDeletePod": _HANDLERS,
    "TestDeletePodOrphan": _HANDLERS,
    "TestSurgeDealsWithExistingPods": "test_existing_pods_are_adopted_released_or_deleted",
    "TestSurgePreservesReadyOldPods": _NEEDS,
    "TestSurgeCreatesNewPodWhenAtMaxSurgeAndOldPodDeleted": _NEEDS,
    "TestSurgeDeletesUnreadyOldPods": _NEEDS,
    "TestSurgePreservesOldReadyWithUnsatisfiedMinReady": _NEEDS,
    "TestSurgeDeletesOldReadyWithUnsatisfiedMinReady": _NEEDS,
    "TestStoreDaemonSetStatus: succeed immediately": "test_status_update_is_retried_on_the_live_object",
    "TestStoreDaemonSetStatus: succeed after one update failure": "test_status_update_is_retried_on_the_live_object",
    "TestStoreDaemonSetStatus: fail after two update failures": "test_status_update_is_retried_on_the_live_object",
    "TestStoreDaemonSetStatus: fail after one update failure and one get failure": (
        "test_status_update_is_retried_on_the_live_object"
    ),
    "TestShouldIgnoreNodeUpdate (three rows)": "test_only_label_and_taint_updates_of_a_node_enqueue",
    # update_test.go
    "TestDaemonSetUpdatesPods": "test_rolling_update_sync_by_sync",
    "TestDaemonSetUpdatesPodsWithMaxSurge": "test_rolling_update_sync_by_sync",
    "TestDaemonSetUpdatesPodsNotMatchTainstWithMaxSurge": "test_rolling_update_sync_by_sync",
    "TestDaemonSetUpdatesWhenNewPodIsNotReady": "test_rolling_update_sync_by_sync",
    "TestDaemonSetUpdatesSomeOldPodsNotReady": "test_rolling_update_sync_by_sync",
    "TestDaemonSetUpdatesSaveOldHealthyPods": "test_rolling_update_sync_by_sync",
    "TestDaemonSetUpdatesAllOldNotReadyPodsAndNewNotReadyPods": _PLAIN,
    "TestDaemonSetUpdatesAllOldPodsNotReady": "test_rolling_update_sync_by_sync",
    "TestDaemonSetUpdatesAllOldPodsNotReadyMaxSurge": "test_rolling_update_sync_by_sync",
    "TestDaemonSetUpdatesNoTemplateChanged": "test_rolling_update_sync_by_sync",
    "TestGetUnavailableNumbers (eight rows)": _BOUNDS,
    "TestControlledHistories: controller revision in the same namespace": (
        "test_controller_revisions_are_claimed_in_their_namespace_only"
    ),
    "TestControlledHistories: Skip adopting the controller revision in namespace other than the one": (
        "test_controller_revisions_are_claimed_in_their_namespace_only"
    ),
    # util/daemonset_util_test.go
    "TestIsPodUpdated (ten rows)": "test_is_pod_updated",
    "TestCreatePodTemplate (two rows)": "test_pod_has_revision_hash_and_template_generation_labels",
    "TestReplaceDaemonSetPodNodeNameNodeAffinity (eight rows)": _PINNED,
    "TestGetTargetNodeName (four rows)": "test_target_node_name_of_bound_and_pending_pods",
    # history/controller_history_test.go
    "TestRealHistory_ListControllerRevisions: selects none": (
        "test_controller_revisions_are_claimed_in_their_namespace_only"
    ),
    "TestRealHistory_ListControllerRevisions: selects all": (
        "test_controller_revisions_are_claimed_in_their_namespace_only"
    ),
    "TestRealHistory_ListControllerRevisions: doesn't select another Objects history": (
        "test_controller_revisions_are_claimed_in_their_namespace_only"
    ),
    "TestRealHistory_ListControllerRevisions: selects orphans": (
        "test_controller_revisions_are_claimed_in_their_namespace_only"
    ),
    "TestRealHistory_CreateControllerRevision: creates new": "test_every_node_gets_a_pod_and_is_counted_in_the_status",
    "TestRealHistory_CreateControllerRevision: create doesn't conflict when parents differ": (
        "test_revision_name_collision_increments_the_collision_count"
    ),
    "TestRealHistory_CreateControllerRevision: create renames on conflict": (
        "test_revision_name_collision_increments_the_collision_count"
    ),
    "TestRealHistory_UpdateControllerRevision": "test_rollback_gives_the_old_revision_the_highest_number",
    "TestRealHistory_UpdateControllerRevision: retries on conflict": (
        NOT + "the DaemonSet controller does not use it; a conflict fails the sync, which is tried again"
    ),
    "TestRealHistory_DeleteControllerRevision": "test_history_limit_keeps_revisions_in_use",
    "TestRealHistory_AdoptControllerRevision: adopting an orphan succeeds": (
        "test_controller_revisions_are_claimed_in_their_namespace_only"
    ),
    "TestRealHistory_AdoptControllerRevision: adopting an owned revision fails": (
        "test_controller_revisions_are_claimed_in_their_namespace_only"
    ),
    "TestRealHistory_AdoptControllerRevision: adopting a non-existent revision fails": (
        "test_revision_deleted_while_being_claimed_is_no_error"
    ),
    "TestRealHistory_ReleaseControllerRevision: releasing an owned revision succeeds": (
        "test_controller_revisions_are_claimed_in_their_namespace_only"
    ),
    "TestRealHistory_ReleaseControllerRevision: releasing an orphan succeeds": (
        NOT + "what has no controller is not released"
    ),
    "TestRealHistory_ReleaseControllerRevision: releasing a revision owned by another controller succeeds": (
        NOT + "what another one controls is not looked at"
    ),
    "TestRealHistory_ReleaseControllerRevision: releasing a non-existent revision succeeds": (
        "test_revision_deleted_while_being_claimed_is_no_error"
    ),
    "TestFindEqualRevisions": _STS,
    "TestSortControllerRevisions": _STS,
    "TestFakeHistory_* (six tests)": _FAKE,
}


def test_every_upstream_case_is_covered() -> None:
    folder = Path(__file__).parent
    assert missing(COVERED, folder) == []
