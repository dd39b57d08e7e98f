"""The cases of upstream's test of ``pkg/controller/volume/pvcprotection``, and where each of them is.

``pvc_protection_controller_test.go`` was read in two stored public copies, one of before and one of after v1.31's
batches; v1.36 itself could not be picked there. Its test of the condition ``Unused`` is of an alpha gate, off in v1.36.
"""

from tests.controllers.upstream_coverage import Cases

_START, _FAILS = "test_claims_existing_at_startup", "test_failed_update_is_retried"
_BATCH = "test_one_pod_list_per_namespace"
_REPLACED = "test_pod_delete_and_create_with_same_namespaced_name_seen_as_an_update"

COVERED: Cases = {
    "PVC without finalizer": _START,
    "PVC with finalizer": _START,
    "saving PVC finalizer fails": _FAILS,
    "deleted PVC with finalizer": _START,
    "finalizer removal fails": _FAILS,
    "deleted PVC with finalizer + pod with the PVC exists": _START,
    "deleted PVC with finalizer + pod with unrelated PVC and EmptyDir exists": _START,
    "deleted PVC with finalizer + pod with the PVC finished but is not deleted": _START,
    "deleted PVC with finalizer + pod with the PVC exists but is not in the Informer's cache yet": (
        "test_pod_missing_in_the_cache_keeps_the_finalizer"
    ),
    "updated running Pod": _START,
    "updated finished Pod": _START,
    "updated unscheduled Pod": _START,
    "deleted running Pod": "test_claim_in_use_is_deleted_with_its_pod",
    "pod delete and create with same namespaced name seen as an update: three": _REPLACED,
    "pod update from unscheduled to scheduled, deleted PVC is referenced": "test_claim_in_use_is_deleted_with_its_pod",
    "deleted PVC with finalizers across different namespaces": "test_namespaces_have_separate_pod_lists",
    "multiple PVCs with finalizer for the same namespace; no alive pods": _BATCH,
    "delete multiple PVCs of the same namespace; pod list fails for one PVC": (
        "test_failed_pod_list_for_one_claim_requeues_it_only"
    ),
    "deleted multiple PVCs with finalizer (same namespace) + pod with unrelated PVC and EmptyDir exists": _BATCH,
    "mix of deleted PVCs with some used by a pod and some unused": _BATCH,
}
