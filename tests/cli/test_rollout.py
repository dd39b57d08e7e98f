"""The progress of rollouts has kubectl's texts."""

from typing import Any

from tests.tables import cases

from pilothouse.cli.rollout import Progress, progress_of


def replica_set(wanted: int = 3, /, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"generation": 2},
        "spec": {"replicas": wanted},
        "status": {"observedGeneration": 2, **status},
    }


def deployment(reason: str, **status: Any) -> dict[str, Any]:
    condition = {"type": "Progressing", "status": "False", "reason": reason}
    return {**replica_set(conditions=[condition], **status), "kind": "Deployment"}


def job(condition: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {},
        "status": {"conditions": [{"type": condition, "status": "True"}]},
    }


@cases(
    "document, expected",
    {
        "not observed yet": (
            replica_set(observedGeneration=1),
            Progress("waiting for the spec update to be observed", False),
        ),
        "scaling up": (
            replica_set(replicas=3, readyReplicas=1, availableReplicas=1),
            Progress("1 of 3 ready", False),
        ),
        "ready but not available for minReadySeconds": (
            replica_set(readyReplicas=3, availableReplicas=2),
            Progress("2 of 3 ready", False),
        ),
        "complete": (replica_set(readyReplicas=3, availableReplicas=3, replicas=3), Progress("3 of 3 ready", True)),
        "scaling down": (
            replica_set(1, replicas=2, readyReplicas=2, availableReplicas=2),
            Progress("1 old pods are pending termination", False),
        ),
        "a failure is reported": (
            replica_set(conditions=[{"type": "ReplicaFailure", "status": "True", "message": "quota"}]),
            Progress("fails: quota", False),
        ),
        "zero replicas": (replica_set(0), Progress("0 of 0 ready", True)),
        "a running pod that is not ready": (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "status": {"phase": "Running", "conditions": []}},
            Progress("Running", False),
        ),
        "a pod that succeeded": (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "status": {"phase": "Succeeded"}},
            Progress("Succeeded", True),
        ),
        "a pod that ended with an error": (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "status": {"phase": "Failed"}},
            Progress("Failed", False, failed=True),
        ),
        "a job that is complete": (job("Complete"), Progress("complete", True)),
        "a job that has failed": (job("Failed"), Progress("failed", False, failed=True)),
        "a job that is about to fail": (job("FailureTarget"), Progress("0 of 1 succeeded", False)),
        "a rollout past its deadline, although the old pods are ready": (
            deployment("ProgressDeadlineExceeded", replicas=3, readyReplicas=3, availableReplicas=3),
            Progress("exceeded its progress deadline", False, failed=True),
        ),
        "a rollout that has failed before and was corrected": (
            deployment("ProgressDeadlineExceeded", observedGeneration=1),
            Progress("waiting for the spec update to be observed", False),
        ),
        "a rollout within its deadline": (deployment("ReplicaSetUpdated"), Progress("0 of 3 ready", False)),
        "kinds without status": (
            {"kind": "ConfigMap", "metadata": {}},
            Progress("exists", True),
        ),
        "custom resources are waited for by their Ready condition": (
            {"kind": "Widget", "metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            Progress("not Ready", False),
        ),
        "a custom resource of the same kind in another group": (
            {**job("Failed"), "apiVersion": "batch.example.com/v1"},
            Progress("exists", True),
        ),
        "a custom resource whose status is a text": (
            {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}, "status": "Ready"},
            Progress("exists", True),
        ),
        "a custom resource whose conditions are texts": (
            {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}, "status": {"conditions": ["Ready"]}},
            Progress("exists", True),
        ),
        "terminating object": (
            {"kind": "ConfigMap", "metadata": {"deletionTimestamp": "x"}},
            Progress("is being deleted", False),
        ),
    },
)
def test_progress(document: dict[str, Any], expected: Progress) -> None:
    assert progress_of(document) == expected
