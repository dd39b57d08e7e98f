"""Missing claims of a pod.

Mirrors ``TestSyncHandler`` of v1.36 ``pkg/controller/volume/ephemeral/controller_test.go`` (read in a public copy),
whose case names are in the ids.
"""

from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.core import PersistentVolumeClaim, Pod
from pilothouse.controllers.volumes.ephemeral_volume.decide import (
    ClaimConflict,
    CreateClaim,
    decide,
    has_ephemeral_volumes,
)

Doc = dict[str, Any]
SPEC: Doc = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "newer": {"than": ["us"]}}
SCRATCH: Doc = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": SPEC}}}
OWNER: Doc = {
    "apiVersion": "v1",
    "kind": "Pod",
    "name": "p",
    "uid": "u",
    "controller": True,
    "blockOwnerDeletion": True,
}


def pod(*volumes: Doc, **metadata: Any) -> Pod:
    meta = {"name": "p", "namespace": "ns", "uid": "u", **metadata}
    return msgspec.convert({"metadata": meta, "spec": {"volumes": list(volumes)}}, Pod)


def claims(*found: tuple[str, list[Doc]]) -> dict[str, PersistentVolumeClaim]:
    return {
        name: msgspec.convert({"metadata": {"name": name, "ownerReferences": owners}}, PersistentVolumeClaim)
        for name, owners in found
    }


def create_claim(volume: str = "scratch", spec: Doc = SPEC, **metadata: Any) -> CreateClaim:
    meta = {"name": f"p-{volume}", "ownerReferences": [OWNER], **metadata}
    return CreateClaim(volume, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})


FOREIGN = ClaimConflict("scratch", "PVC ns/p-scratch was not created for pod ns/p (pod is not owner)")


@cases(
    "pod_spec, known, steps",
    {
        "create": (pod(SCRATCH), claims(), [create_claim()]),
        "pod-deleted": (pod(SCRATCH, deletionTimestamp="2026-01-01T00:00:00Z"), claims(), []),
        "no-volumes": (pod(), claims(), []),
        "volumes of other kinds": (
            pod({"name": "scratch", "emptyDir": {}}, {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}),
            claims(),
            [],
        ),
        "create-with-other-PVC": (pod(SCRATCH), claims(("scratch", []), ("p", [])), [create_claim()]),
        "wrong-PVC-owner": (pod(SCRATCH), claims(("p-scratch", [])), [FOREIGN]),
        "an owner that does not control it is not enough": (
            pod(SCRATCH),
            claims(("p-scratch", [{**OWNER, "controller": False}])),
            [FOREIGN],
        ),
        "owned by an earlier pod of that name": (
            pod(SCRATCH),
            claims(("p-scratch", [{**OWNER, "uid": "older"}])),
            [FOREIGN],
        ),
        "existing claim": (pod(SCRATCH), claims(("p-scratch", [OWNER])), []),
        "only missing claims are created": (
            pod(SCRATCH, {**SCRATCH, "name": "more"}),
            claims(("p-more", [OWNER])),
            [create_claim()],
        ),
        "later volumes are not processed after a conflict": (
            pod({**SCRATCH, "name": "first"}, SCRATCH, {**SCRATCH, "name": "last"}),
            claims(("p-scratch", [])),
            [create_claim("first"), FOREIGN],
        ),
        "labels and annotations of the template, and nothing else of its metadata": (
            pod(
                {
                    "name": "scratch",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}, "uid": "y"},
                            "spec": SPEC,
                        }
                    },
                }
            ),
            claims(),
            [create_claim(labels={"a": "b"}, annotations={"c": "d"})],
        ),
    },
)
def test_claims_to_create(pod_spec: Pod, known: dict[str, PersistentVolumeClaim], steps: list[object]) -> None:
    assert decide(pod_spec, known.get) == steps


@cases(
    "pod_spec, expected",
    {
        "one is enough": (pod(SCRATCH), True),
        "only of other kinds": (pod({"name": "c", "persistentVolumeClaim": {"claimName": "c"}}), False),
        "terminating pod": (pod(SCRATCH, deletionTimestamp="2026-01-01T00:00:00Z"), False),
    },
)
def test_pods_to_sync(pod_spec: Pod, expected: bool) -> None:
    assert has_ephemeral_volumes(pod_spec) is expected
