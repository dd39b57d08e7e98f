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


def rollout(kind: str, existing: int, *, spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """All pods of it are ready, and three are desired."""
    counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), existing)
    document = replica_set(3, **counts, **status)
    return {**document, "kind": kind, "spec": {**document["spec"], **(spec or {})}}


def daemon_set(strategy: str = "RollingUpdate", **status: int) -> dict[str, Any]:
    counts = dict.fromkeys(("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"), 3)
    document = replica_set(**{**counts, **status})
    return {**document, "kind": "DaemonSet", "spec": {"updateStrategy": {"type": strategy}}}


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
            Progress("1 old pod is pending termination", False),
        ),
        "a failure is reported": (
            replica_set(conditions=[{"type": "ReplicaFailure", "status": "True", "message": "quota"}]),
            Progress("fails: quota", False),
        ),
        "a deployment of which no pod has the new template": (
            rollout("Deployment", 3, updatedReplicas=0), Progress("0 of 3 updated", False)),
        "a deployment with old pods": (
            rollout("Deployment", 4, updatedReplicas=3), Progress("1 old pod is pending termination", False)),
        "a deployment of which all pods have the new template": (
            rollout("Deployment", 3, updatedReplicas=3), Progress("3 of 3 ready", True)),
        "a paused deployment": (
            rollout("Deployment", 3, spec={"paused": True}, updatedReplicas=1),
            Progress("is paused, 1 of 3 updated", False)),
        "a stateful set with pods of the old template, all ready": (
            rollout("StatefulSet", 3, currentRevision="a", updateRevision="b", updatedReplicas=1),
            Progress("1 of 3 updated", False)),
        "a stateful set with a partition": (
            rollout(
                "StatefulSet", 3, spec={"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}},
                currentRevision="a", updateRevision="b", updatedReplicas=1),
            Progress("3 of 3 ready", True)),
        "a stateful set whose pods are replaced by users": (
            rollout(
                "StatefulSet", 3, spec={"updateStrategy": {"type": "OnDelete"}},
                currentRevision="a", updateRevision="b", updatedReplicas=0),
            Progress("3 of 3 ready", True)),
        "a stateful set that is updated": (
            rollout("StatefulSet", 3, currentRevision="b", updateRevision="b", updatedReplicas=3),
            Progress("3 of 3 ready", True)),
        "a daemon set with pods of the old template": (
            daemon_set(updatedNumberScheduled=1), Progress("1 of 3 updated", False)),
        "a daemon set that is updated": (daemon_set(updatedNumberScheduled=3), Progress("3 of 3 ready", True)),
        "a daemon set whose pods are not available": (
            daemon_set(updatedNumberScheduled=3, numberAvailable=2), Progress("2 of 3 ready", False)),
        "a daemon set whose pods are replaced by users": (
            daemon_set("OnDelete", updatedNumberScheduled=0), Progress("3 of 3 ready", True)),
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
)  # fmt: skip
def test_progress(document: dict[str, Any], expected: Progress) -> None:
    assert progress_of(document) == expected
