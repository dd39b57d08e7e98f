"""The cases of upstream's test of ``pkg/controller/volume/ephemeral``, and where each of them is.

``controller_test.go`` was read in a public copy of v1.33.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_WHAT = "test_claims_to_create"

COVERED: Cases = {
    "TestSyncHandler: create": _WHAT,
    "TestSyncHandler: no-such-pod": NOT + "a key of which the cache has no pod is done with, in four words",
    "TestSyncHandler: pod-deleted": _WHAT,
    "TestSyncHandler: no-volumes": _WHAT,
    "TestSyncHandler: create-with-other-PVC": _WHAT,
    "TestSyncHandler: wrong-PVC-owner": _WHAT,
    "TestSyncHandler: create-conflict": "test_failed_claim_creation_is_retried",
}
