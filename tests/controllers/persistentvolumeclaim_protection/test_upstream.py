"""The cases of upstream's test of ``pkg/controller/volume/pvcprotection``, and where each of them is.

``pvc_protection_controller_test.go`` was read in a public copy of v1.30.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import Cases, missing

_START, _FAILS = "test_what_is_there_when_it_starts", "test_a_write_that_fails"
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
        "test_a_pod_that_the_cache_does_not_know_keeps_the_claim"
    ),
    "updated running Pod": _START,
    "updated finished Pod": _START,
    "updated unscheduled Pod": _START,
    "deleted running Pod": "test_a_claim_in_use_goes_with_its_pod",
    "pod delete and create with same namespaced name seen as an update: three": _REPLACED,
    "pod update from unscheduled to scheduled, deleted PVC is referenced": "test_a_claim_in_use_goes_with_its_pod",
}


def test_every_case_is_somewhere() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
