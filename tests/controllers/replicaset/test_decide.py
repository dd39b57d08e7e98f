"""Pods to create or delete in one sync."""

from tests.tables import cases

from pilothouse.controllers.workloads.replicaset.decide import BURST, CreatePods, DeletePods, Observed, decide


@cases(
    "state, expected",
    {
        # v1.36 pkg/controller/replicaset/replica_set_test.go, TestSyncReplicaSetDoesNothing
        "at replicas: nothing to do": (Observed(desired=2, active=2), None),
        "short: create the difference": (Observed(desired=3, active=1), CreatePods(2)),
        "above: delete the difference": (Observed(desired=1, active=3), DeletePods(2)),
        "none desired, none existing": (Observed(desired=0, active=0), None),
        "far below: one burst at a time": (Observed(desired=5000, active=0), CreatePods(BURST)),
        "far above: one burst at a time": (Observed(desired=0, active=5000), DeletePods(BURST)),
        # TestControllerBurstReplicas
        "the burst can be set": (Observed(desired=7, active=0, burst=5), CreatePods(5)),
        # TestSyncReplicaSetDormancy
        "earlier actions are not seen yet: wait": (Observed(desired=2, active=1, expectations_satisfied=False), None),
        # TestDoNotAdoptOrCreateIfBeingDeleted
        "an owner being deleted creates nothing": (Observed(desired=2, active=0, being_deleted=True), None),
        "an owner being deleted deletes nothing": (Observed(desired=0, active=2, being_deleted=True), None),
    },
)
def test_decide(state: Observed, expected: CreatePods | DeletePods | None) -> None:
    assert decide(state) == expected
