"""The cases of upstream's test of ``pkg/controller/resourceclaim``, and where each of them is.

``controller_test.go`` was read as it was in v1.36: PodGroups are those of scheduling.k8s.io/v1alpha2.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_GROUPS = f"{NOT}claims of PodGroups are behind DRAWorkloadResourceClaims, which is alpha and has no effect here"
_WORK, _CLAIM, _COUNTS = (
    "test_whether_a_pod_needs_work",
    "test_what_is_done_with_a_claim",
    "test_as_what_a_claim_counts",
)
_RESERVED = "test_whether_a_claim_stays_reserved"
_FAILS = "test_a_claim_that_cannot_be_made_is_told_and_tried_again"
_EXTENDED = "test_the_claim_of_extended_resources_goes_with_its_pod"
_CREATED = "test_a_pod_gets_its_claim_and_its_status_names_it"

COVERED: Cases = {
    "TestSyncHandler: create": _CREATED,
    "TestSyncHandler: create with admin and feature gate off": f"{NOT}DRAAdminAccess is locked on since v1.36",
    "TestSyncHandler: create with admin and feature gate on": _FAILS,
    "TestSyncHandler: create for PodGroup": _GROUPS,
    "TestSyncHandler: skip create for Pod with PodGroup before template exists": _GROUPS,
    "TestSyncHandler: skip create for Pod with PodGroup after template exists": _GROUPS,
    "TestSyncHandler: update Pod status with PodGroup claim": _GROUPS,
    "TestSyncHandler: create ResourceClaim for Pod with PodGroup claim when feature is disabled": _CREATED,
    "TestSyncHandler: nop": _WORK,
    "TestSyncHandler: recreate": "test_a_claim_that_was_deleted_is_made_again_and_the_other_one_stays_named",
    "TestSyncHandler: missing-template": "test_a_missing_template_is_told_and_waited_for",
    "TestSyncHandler: find-existing-claim-by-label": "test_a_status_that_cannot_be_written_makes_no_second_claim",
    "TestSyncHandler: find-created-claim-in-cache": "test_a_claim_that_the_cache_does_not_show_is_not_made_twice",
    "TestSyncHandler: no-such-pod": "test_pods_that_are_gone_or_want_nothing_cost_nothing",
    "TestSyncHandler: pod-deleted": _WORK,
    "TestSyncHandler: no-volumes": _WORK,
    "TestSyncHandler: create-with-other-claim": "test_each_entry_gets_a_claim_of_its_own",
    "TestSyncHandler: wrong-claim-owner": _WORK,
    "TestSyncHandler: create-conflict": _FAILS,
    "TestSyncHandler: stay-reserved-seen": _RESERVED,
    "TestSyncHandler: stay-reserved-not-seen": "test_a_pod_that_the_cache_does_not_know_keeps_its_reservation",
    "TestSyncHandler: clear-reserved-structured": "test_the_last_user_takes_allocation_and_finalizer_along",
    "TestSyncHandler: clear-reserved-podgroup": _GROUPS,
    "TestSyncHandler: dont-clear-reserved-podgroup-feature-disabled": _RESERVED,
    "TestSyncHandler: dont-clear-reserved-structured": "test_the_last_user_takes_allocation_and_finalizer_along",
    "TestSyncHandler: clear-reserved-structured-deleted": "test_a_claim_that_is_deleted_in_use_waits_for_its_pod",
    "TestSyncHandler: structured-deleted": "test_a_claim_that_nobody_has_used_goes_when_it_is_deleted",
    "TestSyncHandler: clear-reserved-when-done": _RESERVED,
    "TestSyncHandler: remove-reserved": "test_the_last_user_takes_allocation_and_finalizer_along",
    "TestSyncHandler: delete-claim-when-done": "test_the_claim_of_a_pod_that_has_ended_is_deleted",
    "TestSyncHandler: add-reserved": "test_a_pod_with_a_node_gets_its_claim_reserved",
    "TestSyncHandler: add-reserved-podgroup": _GROUPS,
    "TestSyncHandler: add-reserved-podgroup-feature-disabled": "test_a_pod_with_a_node_gets_its_claim_reserved",
    "TestSyncHandler: clean up pod reservation with non-pod reservation present": (
        "test_others_than_pods_keep_their_reservations"
    ),
    "TestResourceClaimTemplateEventHandler": "test_a_missing_template_is_told_and_waited_for",
    "TestResourceClaimEventHandler": _COUNTS,
    "TestResourceClaimEventHandler: extended resources": _EXTENDED,
    "TestEnqueuePodExtendedResourceClaims": "test_a_pod_releases_also_the_claim_of_its_extended_resources",
    "TestGetAdminAccessMetricLabel": _COUNTS,
    "TestSyncHandler: claim to be deleted, in use": _CLAIM,
}
