"""How many pods are made or removed in one sync."""

import pytest

from pilothouse.controllers.workloads.replicaset.decide import BURST, CreatePods, DeletePods, Observed, decide


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        # v1.36 pkg/controller/replicaset/replica_set_test.go, TestSyncReplicaSetDoesNothing
        pytest.param(Observed(wanted=2, active=2), None, id="as wanted: nothing to do"),
        pytest.param(Observed(wanted=3, active=1), CreatePods(2), id="short: create the difference"),
        pytest.param(Observed(wanted=1, active=3), DeletePods(2), id="over: delete the difference"),
        pytest.param(Observed(wanted=0, active=0), None, id="none wanted, none there"),
        pytest.param(Observed(wanted=5000, active=0), CreatePods(BURST), id="far short: one burst at a time"),
        pytest.param(Observed(wanted=0, active=5000), DeletePods(BURST), id="far over: one burst at a time"),
        # TestControllerBurstReplicas
        pytest.param(Observed(wanted=7, active=0, burst=5), CreatePods(5), id="the burst can be set"),
        # TestSyncReplicaSetDormancy
        pytest.param(Observed(wanted=2, active=1, settled=False), None, id="earlier actions are not seen yet: wait"),
        # TestDoNotAdoptOrCreateIfBeingDeleted
        pytest.param(
            Observed(wanted=2, active=0, being_deleted=True), None, id="an owner being deleted creates nothing"
        ),
        pytest.param(
            Observed(wanted=0, active=2, being_deleted=True), None, id="an owner being deleted deletes nothing"
        ),
    ],
)
def test_decide(seen: Observed, expected: CreatePods | DeletePods | None) -> None:
    assert decide(seen) == expected
