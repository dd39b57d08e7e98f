"""Claims used by a pod, and pod events that enqueue."""

from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.core import PersistentVolumeClaim, Pod
from pilothouse.controllers.volumes.persistentvolumeclaim_protection.controller import (
    may_stop_using,
    pod_uses_pvc,
    unused,
)

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SHUT_DOWN = {**GOING, "deletionGracePeriodSeconds": 0}
NAMED = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
RUNS: dict[str, Any] = {"state": {"running": {}}}
ENDED: dict[str, Any] = {"state": {"terminated": {"exitCode": 0}}}


def claim(name: str = "c", *owners: str) -> PersistentVolumeClaim:
    references = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True} for uid in owners]
    doc = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "ownerReferences": references}}
    return msgspec.convert(doc, PersistentVolumeClaim)


def pod(*volumes: dict[str, Any], node: str = "node-0", phase: str = "Running", **more: Any) -> Pod:
    meta = {"name": "p", "namespace": "default", "uid": "uid-p", **more.pop("metadata", {})}
    spec = {"nodeName": node, "volumes": list(volumes)}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase, **more}}, Pod)


EPHEMERAL = {"name": "scratch", "ephemeral": {}}


@cases(
    "pod_object, wanted, expected",
    {
        "names it": (pod(NAMED), claim(), True),
        "has another kind of volume of that name": (pod({"name": "c", "emptyDir": {}}), claim(), False),
        "names it among others": (pod({"name": "x", "emptyDir": {}}, NAMED), claim(), True),
        "names another one": (pod(NAMED), claim("other"), False),
        "names it and has no node": (pod(NAMED, node=""), claim(), False),
        "names it and has ended": (pod(NAMED, phase="Succeeded"), claim(), True),
        "names it and has failed": (pod(NAMED, phase="Failed"), claim(), True),
        "names it and is shut down": (pod(NAMED, metadata=SHUT_DOWN), claim(), True),
        "created for the pod": (pod(EPHEMERAL), claim("p-scratch", "uid-p"), True),
        "created by another owner": (pod(EPHEMERAL), claim("p-scratch"), False),
        "created for its predecessor": (pod(EPHEMERAL), claim("p-scratch", "uid-q"), False),
        "created for the pod, under another name": (pod(EPHEMERAL), claim("scratch", "uid-p"), False),
        "created for the pod, and unscheduled": (pod(EPHEMERAL, node=""), claim("p-scratch", "uid-p"), False),
        "created for the pod, and failed": (pod(EPHEMERAL, phase="Failed"), claim("p-scratch", "uid-p"), True),
        "created for the pod, and terminating": (pod(EPHEMERAL, metadata=GOING), claim("p-scratch", "uid-p"), True),
        "created for the pod, and shut down": (pod(EPHEMERAL, metadata=SHUT_DOWN), claim("p-scratch", "uid-p"), False),
    },
)
def test_pod_uses_pvc(pod_object: Pod, wanted: PersistentVolumeClaim, expected: bool) -> None:
    """``podUsesPVC``, ``podIsShutDown`` and ``VolumeIsForPod``."""
    assert pod_uses_pvc(pod_object, wanted) is expected
    assert unused([claim("else"), wanted], [pod_object]) == [claim("else"), *([] if expected else [wanted])]


@cases(
    "pod_object, expected",
    {
        "runs": (pod(), False),
        "has no node": (pod(node=""), True),
        "has ended": (pod(phase="Succeeded"), True),
        "has failed": (pod(phase="Failed"), True),
        "is stopping": (pod(metadata=GOING, containerStatuses=[RUNS]), False),
        "has stopped": (pod(metadata=GOING, containerStatuses=[ENDED]), True),
        "was deleted by force": (pod(metadata=SHUT_DOWN, containerStatuses=[RUNS]), True),
    },
)
def test_pod_events_that_enqueue(pod_object: Pod, expected: bool) -> None:
    """The filter of ``enqueuePVCs``, with pods that were deleted by force."""
    assert may_stop_using(pod_object) is expected
