"""The cases of upstream's test of ``pkg/controller/resourceclaim``, and the tests that cover them.

As of ``controller_test.go`` in v1.36: PodGroups are those of scheduling.k8s.io/v1alpha2.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_GROUPS = f"{NOT}claims of PodGroups are behind DRAWorkloadResourceClaims, which is alpha and has no effect here"
_WORK, _CLAIM, _COUNTS = (
    "test_pod_needs_work",
    "test_sync_claim",
    "test_claim_metric_labels",
)
_RESERVED = "test_reservation_is_kept"
_FAILS = "test_failed_claim_creation_emits_an_event_and_is_retried"
_EXTENDED = "test_extended_resource_claim_is_released_with_its_pod"
_CREATED = "test_claim_is_created_and_recorded_in_the_pod_status"

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
    "TestSyncHandler: recreate": "test_deleted_claim_is_recreated_and_others_stay_in_the_status",
    "TestSyncHandler: missing-template": "test_missing_template_emits_an_event_and_is_awaited",
    "TestSyncHandler: find-existing-claim-by-label": "test_failed_status_update_creates_no_second_claim",
    "TestSyncHandler: find-created-claim-in-cache": "test_claim_missing_in_the_cache_is_not_created_twice",
    "TestSyncHandler: no-such-pod": "test_deleted_pods_and_pods_without_claims_send_no_requests",
    "TestSyncHandler: pod-deleted": _WORK,
    "TestSyncHandler: no-volumes": _WORK,
    "TestSyncHandler: create-with-other-claim": "test_each_entry_gets_a_separate_claim",
    "TestSyncHandler: wrong-claim-owner": _WORK,
    "TestSyncHandler: create-conflict": _FAILS,
    "TestSyncHandler: stay-reserved-seen": _RESERVED,
    "TestSyncHandler: stay-reserved-not-seen": "test_pod_missing_in_the_cache_keeps_its_reservation",
    "TestSyncHandler: clear-reserved-structured": (
        "test_last_released_reservation_deallocates_and_removes_the_finalizer"
    ),
    "TestSyncHandler: clear-reserved-podgroup": _GROUPS,
    "TestSyncHandler: dont-clear-reserved-podgroup-feature-disabled": _RESERVED,
    "TestSyncHandler: dont-clear-reserved-structured": (
        "test_last_released_reservation_deallocates_and_removes_the_finalizer"
    ),
    "TestSyncHandler: clear-reserved-structured-deleted": "test_terminating_claim_in_use_waits_for_its_pod",
    "TestSyncHandler: structured-deleted": "test_unused_terminating_claim_is_deleted",
    "TestSyncHandler: clear-reserved-when-done": _RESERVED,
    "TestSyncHandler: remove-reserved": "test_last_released_reservation_deallocates_and_removes_the_finalizer",
    "TestSyncHandler: delete-claim-when-done": "test_claim_of_a_terminated_pod_is_deleted",
    "TestSyncHandler: add-reserved": "test_claim_of_a_scheduled_pod_is_reserved",
    "TestSyncHandler: add-reserved-podgroup": _GROUPS,
    "TestSyncHandler: add-reserved-podgroup-feature-disabled": "test_claim_of_a_scheduled_pod_is_reserved",
    "TestSyncHandler: clean up pod reservation with non-pod reservation present": (
        "test_non_pod_reservations_are_kept"
    ),
    "TestResourceClaimTemplateEventHandler": "test_missing_template_emits_an_event_and_is_awaited",
    "TestResourceClaimEventHandler": _COUNTS,
    "TestResourceClaimEventHandler: extended resources": _EXTENDED,
    "TestEnqueuePodExtendedResourceClaims": "test_claims_to_release_include_extended_resources",
    "TestGetAdminAccessMetricLabel": _COUNTS,
    "TestSyncHandler: claim to be deleted, in use": _CLAIM,
}
