"""The cases of v1.36 ``pkg/controller/daemon`` and ``pkg/controller/history``, and where each of them is.

``COVERED`` names for every upstream test, and for the rows of its tables, the function of ours that has it. What v1.36
added with its consistency store is in ``test_faults`` and ``tests/runtime``.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import NOT, Cases, missing

_FITS = "test_a_node_runs_a_pod_by_its_name_labels_and_taints"
_NEEDS = "test_a_node_gets_what_it_needs"
_PLAIN = "test_without_surge_old_pods_go_as_far_as_the_bound_allows"
_BOUNDS = "test_bounds_are_scaled_to_the_nodes"
_HANDLERS = "test_events_enqueue_those_they_concern"
_PINNED = "test_a_pod_is_pinned_to_its_node"
_STS = NOT + "for StatefulSets only; a DaemonSet makes and names its revisions itself, see TestDaemonSet*"
_FAKE = NOT + "it tests a fake that upstream's other tests use; ours use the API server"

COVERED: Cases = {
    # daemon_controller_test.go
    "TestDeleteFinalStateUnknown": _HANDLERS,
    "TestExpectationsOnRecreate": "test_a_set_made_again_expects_nothing_of_the_one_before",
    "TestSimpleDaemonSetLaunchesPods": "test_every_node_gets_a_pod_and_the_status_says_so",
    "TestSimpleDaemonSetScheduleDaemonSetPodsLaunchesPods": "test_pods_are_pinned_and_not_bound",
    "TestSimpleDaemonSetPodCreateErrors": "test_a_quota_ends_the_batches",
    "TestDaemonSetPodCreateExpectationsError": "test_a_quota_ends_the_batches",
    "TestSimpleDaemonSetUpdatesStatusAfterLaunchingPods": "test_every_node_gets_a_pod_and_the_status_says_so",
    "TestSimpleDaemonSetUpdatesStatusError: sync error": "test_of_two_failures_the_first_is_raised",
    "TestSimpleDaemonSetUpdatesStatusError: status error": "test_of_two_failures_the_first_is_raised",
    "TestSimpleDaemonSetUpdatesStatusError: sync and status error": "test_of_two_failures_the_first_is_raised",
    "TestNoNodesDoesNothing": "test_without_nodes_nothing_is_made",
    "TestOneNodeDaemonLaunchesPod": _FITS,
    "TestNotReadyNodeDaemonDoesLaunchPod": "test_conditions_resources_and_ports_do_not_matter",
    "TestInsufficientCapacityNodeDaemonDoesNotUnscheduleRunningPod": (
        "test_conditions_resources_and_ports_do_not_matter"
    ),
    "TestInsufficientCapacityNodeSufficientCapacityWithNodeLabelDaemonLaunchPod": (
        "test_conditions_resources_and_ports_do_not_matter"
    ),
    "TestNetworkUnavailableNodeDaemonLaunchesPod": "test_conditions_resources_and_ports_do_not_matter",
    "TestDontDoAnythingIfBeingDeleted": "test_a_set_that_is_being_deleted_makes_no_pods",
    "TestDontDoAnythingIfBeingDeletedRace": "test_an_owner_that_is_going_on_the_server_adopts_nothing",
    "TestPortConflictWithSameDaemonPodDoesNotDeletePod": "test_conditions_resources_and_ports_do_not_matter",
    "TestNoPortConflictNodeDaemonLaunchesPod": "test_conditions_resources_and_ports_do_not_matter",
    "TestPodIsNotDeletedByDaemonsetWithEmptyLabelSelector": "test_a_set_that_selects_all_gets_nothing",
    "TestDealsWithExistingPods": "test_pods_that_are_there_already",
    "TestSelectorDaemonLaunchesPods": _FITS,
    "TestSelectorDaemonDeletesUnselectedPods": "test_pods_that_are_there_already",
    "TestSelectorDaemonDealsWithExistingPods": "test_pods_that_are_there_already",
    "TestBadSelectorDaemonDoesNothing": _FITS,
    "TestNameDaemonSetLaunchesPods": _FITS,
    "TestBadNameDaemonSetDoesNothing": _FITS,
    "TestNameAndSelectorDaemonSetLaunchesPods": _FITS,
    "TestInconsistentNameSelectorDaemonSetDoesNothing": _FITS,
    "TestSelectorDaemonSetLaunchesPods": _FITS,
    "TestNodeAffinityDaemonLaunchesPods": _FITS,
    "TestNumberReadyStatus": "test_a_node_counts_by_its_first_pod",
    "TestObservedGeneration": "test_a_new_generation_is_reported_once_it_was_acted_upon",
    "TestDaemonKillFailedPods: normal": _NEEDS,
    "TestDaemonKillFailedPods: no pods": _NEEDS,
    "TestDaemonKillFailedPods: 1 failed pod, 0 normal pod": _NEEDS,
    "TestDaemonKillFailedPods: 1 failed pod, 3 normal pods": _NEEDS,
    "TestDaemonKillFailedPodsBackoff": "test_failed_pods_are_killed_at_growing_intervals",
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
        "test_conditions_resources_and_ports_do_not_matter"
    ),
    "TestNodeShouldRunDaemonPod: ErrPodNotMatchHostName": _FITS,
    "TestNodeShouldRunDaemonPod: ErrPodNotFitsHostPorts": "test_conditions_resources_and_ports_do_not_matter",
    "TestNodeShouldRunDaemonPod: ErrNodeSelectorNotMatch": _FITS,
    "TestNodeShouldRunDaemonPod: ErrPodAffinityNotMatch": _FITS,
    "TestNodeShouldRunDaemonPod: ShouldRunDaemonPodOnUnschedulableNode": _FITS,
    "TestUpdateNode: Nothing changed, should not enqueue": "test_only_labels_and_taints_of_a_node_enqueue_anything",
    "TestUpdateNode: Node labels changed": "test_only_labels_and_taints_of_a_node_enqueue_anything",
    "TestUpdateNode: Node taints changed": "test_only_labels_and_taints_of_a_node_enqueue_anything",
    "TestUpdateNode: Node Allocatable changed": "test_only_labels_and_taints_of_a_node_enqueue_anything",
    "TestDeleteNoDaemonPod (three rows)": _HANDLERS,
    "TestDeleteUnscheduledPodForNotExistingNode": _NEEDS,
    "TestGetNodesToDaemonPods: exclude deleted terminal pods": "test_which_pods_count_for_a_node",
    "TestGetNodesToDaemonPods: include deleted terminal pods": "test_which_pods_count_for_a_node",
    "TestAddNode": "test_only_labels_and_taints_of_a_node_enqueue_anything",
    "TestAddPod": _HANDLERS,
    "TestAddPodOrphan": _HANDLERS,
    "TestUpdatePod": _HANDLERS,
    "TestUpdatePodOrphanSameLabels": _HANDLERS,
    "TestUpdatePodOrphanWithNewLabels": _HANDLERS,
    "TestUpdatePodChangeControllerRef": _HANDLERS,
    "TestUpdatePodControllerRefRemoved": _HANDLERS,
    "TestDeletePod": _HANDLERS,
    "TestDeletePodOrphan": _HANDLERS,
    "TestSurgeDealsWithExistingPods": "test_pods_that_are_there_already",
    "TestSurgePreservesReadyOldPods": _NEEDS,
    "TestSurgeCreatesNewPodWhenAtMaxSurgeAndOldPodDeleted": _NEEDS,
    "TestSurgeDeletesUnreadyOldPods": _NEEDS,
    "TestSurgePreservesOldReadyWithUnsatisfiedMinReady": _NEEDS,
    "TestSurgeDeletesOldReadyWithUnsatisfiedMinReady": _NEEDS,
    "TestStoreDaemonSetStatus: succeed immediately": "test_a_status_is_put_once_more_on_the_live_object",
    "TestStoreDaemonSetStatus: succeed after one update failure": "test_a_status_is_put_once_more_on_the_live_object",
    "TestStoreDaemonSetStatus: fail after two update failures": "test_a_status_is_put_once_more_on_the_live_object",
    "TestStoreDaemonSetStatus: fail after one update failure and one get failure": (
        "test_a_status_is_put_once_more_on_the_live_object"
    ),
    "TestShouldIgnoreNodeUpdate (three rows)": "test_only_labels_and_taints_of_a_node_enqueue_anything",
    # update_test.go
    "TestDaemonSetUpdatesPods": "test_updates_turn_by_turn",
    "TestDaemonSetUpdatesPodsWithMaxSurge": "test_updates_turn_by_turn",
    "TestDaemonSetUpdatesPodsNotMatchTainstWithMaxSurge": "test_updates_turn_by_turn",
    "TestDaemonSetUpdatesWhenNewPodIsNotReady": "test_updates_turn_by_turn",
    "TestDaemonSetUpdatesSomeOldPodsNotReady": "test_updates_turn_by_turn",
    "TestDaemonSetUpdatesSaveOldHealthyPods": "test_updates_turn_by_turn",
    "TestDaemonSetUpdatesAllOldNotReadyPodsAndNewNotReadyPods": _PLAIN,
    "TestDaemonSetUpdatesAllOldPodsNotReady": "test_updates_turn_by_turn",
    "TestDaemonSetUpdatesAllOldPodsNotReadyMaxSurge": "test_updates_turn_by_turn",
    "TestDaemonSetUpdatesNoTemplateChanged": "test_updates_turn_by_turn",
    "TestGetUnavailableNumbers (eight rows)": _BOUNDS,
    "TestControlledHistories: controller revision in the same namespace": "test_revisions_are_claimed_in_one_namespace",
    "TestControlledHistories: Skip adopting the controller revision in namespace other than the one": (
        "test_revisions_are_claimed_in_one_namespace"
    ),
    # util/daemonset_util_test.go
    "TestIsPodUpdated (ten rows)": "test_a_pod_is_new_by_hash_or_by_generation",
    "TestCreatePodTemplate (two rows)": "test_a_pod_carries_its_revision_and_generation",
    "TestReplaceDaemonSetPodNodeNameNodeAffinity (eight rows)": _PINNED,
    "TestGetTargetNodeName (four rows)": "test_a_pod_belongs_to_the_node_it_is_on_or_pinned_to",
    # history/controller_history_test.go
    "TestRealHistory_ListControllerRevisions: selects none": "test_revisions_are_claimed_in_one_namespace",
    "TestRealHistory_ListControllerRevisions: selects all": "test_revisions_are_claimed_in_one_namespace",
    "TestRealHistory_ListControllerRevisions: doesn't select another Objects history": (
        "test_revisions_are_claimed_in_one_namespace"
    ),
    "TestRealHistory_ListControllerRevisions: selects orphans": "test_revisions_are_claimed_in_one_namespace",
    "TestRealHistory_CreateControllerRevision: creates new": "test_every_node_gets_a_pod_and_the_status_says_so",
    "TestRealHistory_CreateControllerRevision: create doesn't conflict when parents differ": (
        "test_a_name_that_is_taken_leads_to_another_one"
    ),
    "TestRealHistory_CreateControllerRevision: create renames on conflict": (
        "test_a_name_that_is_taken_leads_to_another_one"
    ),
    "TestRealHistory_UpdateControllerRevision": "test_going_back_makes_the_old_revision_the_newest",
    "TestRealHistory_UpdateControllerRevision: retries on conflict": (
        NOT + "the DaemonSet controller does not use it; a conflict fails the sync, which is tried again"
    ),
    "TestRealHistory_DeleteControllerRevision": "test_old_revisions_go_but_not_those_that_pods_carry",
    "TestRealHistory_AdoptControllerRevision: adopting an orphan succeeds": (
        "test_revisions_are_claimed_in_one_namespace"
    ),
    "TestRealHistory_AdoptControllerRevision: adopting an owned revision fails": (
        "test_revisions_are_claimed_in_one_namespace"
    ),
    "TestRealHistory_AdoptControllerRevision: adopting a non-existent revision fails": (
        "test_a_revision_that_goes_while_it_is_claimed"
    ),
    "TestRealHistory_ReleaseControllerRevision: releasing an owned revision succeeds": (
        "test_revisions_are_claimed_in_one_namespace"
    ),
    "TestRealHistory_ReleaseControllerRevision: releasing an orphan succeeds": (
        NOT + "what has no controller is not released"
    ),
    "TestRealHistory_ReleaseControllerRevision: releasing a revision owned by another controller succeeds": (
        NOT + "what another one controls is not looked at"
    ),
    "TestRealHistory_ReleaseControllerRevision: releasing a non-existent revision succeeds": (
        "test_a_revision_that_goes_while_it_is_claimed"
    ),
    "TestFindEqualRevisions": _STS,
    "TestSortControllerRevisions": _STS,
    "TestFakeHistory_* (six tests)": _FAKE,
}


def test_no_case_of_upstream_is_missing() -> None:
    folder = Path(__file__).parent
    assert missing(COVERED, folder) == []
