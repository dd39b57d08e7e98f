"""Progress of an object is reported as kubectl reports it."""

from typing import Any

import pytest

from pilothouse.cli.rollout import Progress, progress_of


def replica_set(wanted: int = 3, /, **status: Any) -> dict[str, Any]:
    return {
        "kind": "ReplicaSet",
        "metadata": {"generation": 2},
        "spec": {"replicas": wanted},
        "status": {"observedGeneration": 2, **status},
    }


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            replica_set(observedGeneration=1),
            Progress("waiting for the spec update to be observed", False),
            id="not observed yet",
        ),
        pytest.param(
            replica_set(replicas=3, readyReplicas=1, availableReplicas=1),
            Progress("1 of 3 ready", False),
            id="on the way up",
        ),
        pytest.param(
            replica_set(readyReplicas=3, availableReplicas=2),
            Progress("2 of 3 ready", False),
            id="ready but not available for minReadySeconds is not done",
        ),
        pytest.param(
            replica_set(readyReplicas=3, availableReplicas=3, replicas=3), Progress("3 of 3 ready", True), id="done"
        ),
        pytest.param(
            replica_set(1, replicas=2, readyReplicas=2, availableReplicas=2),
            Progress("1 old pods are pending termination", False),
            id="on the way down",
        ),
        pytest.param(
            replica_set(conditions=[{"type": "ReplicaFailure", "status": "True", "message": "quota"}]),
            Progress("fails: quota", False),
            id="a failure is reported",
        ),
        pytest.param(replica_set(0), Progress("0 of 0 ready", True), id="nothing wanted is done at once"),
        pytest.param(
            {"kind": "Pod", "metadata": {}, "status": {"phase": "Running", "conditions": []}},
            Progress("Running", False),
            id="a running pod that is not ready",
        ),
        pytest.param(
            {"kind": "Pod", "metadata": {}, "status": {"phase": "Succeeded"}},
            Progress("Succeeded", True),
            id="a pod that ended well",
        ),
        pytest.param(
            {"kind": "ConfigMap", "metadata": {}},
            Progress("exists", True),
            id="kinds without a state are done when they exist",
        ),
        pytest.param(
            {"kind": "Widget", "metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            Progress("not Ready", False),
            id="custom resources are waited for by their Ready condition",
        ),
        pytest.param(
            {"kind": "ConfigMap", "metadata": {"deletionTimestamp": "x"}},
            Progress("is being deleted", False),
            id="what is being deleted is never done",
        ),
    ],
)
def test_progress(document: dict[str, Any], expected: Progress) -> None:
    assert progress_of(document) == expected
