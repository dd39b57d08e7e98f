"""Which claims a pod lacks. Mirrors ``TestSyncHandler`` of v1.36 ``pkg/controller/volume/ephemeral/controller_test.go``
(read in a public copy), whose case names are in the ids."""

from typing import Any

import msgspec
import pytest

from pilothouse.api.core import PersistentVolumeClaim, Pod
from pilothouse.controllers.volumes.ephemeral_volume.decide import Make, Reject, decide, has_ephemeral_volumes

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


def made(volume: str = "scratch", spec: Doc = SPEC, **metadata: Any) -> Make:
    meta = {"name": f"p-{volume}", "namespace": "ns", "ownerReferences": [OWNER], **metadata}
    return Make(volume, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})


FOREIGN = Reject("scratch", "PVC ns/p-scratch was not created for pod ns/p (pod is not owner)")


@pytest.mark.parametrize(
    ("asks", "known", "steps"),
    [
        pytest.param(pod(SCRATCH), claims(), [made()], id="create"),
        pytest.param(pod(SCRATCH, deletionTimestamp="2026-01-01T00:00:00Z"), claims(), [], id="pod-deleted"),
        pytest.param(pod(), claims(), [], id="no-volumes"),
        pytest.param(
            pod({"name": "scratch", "emptyDir": {}}, {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}),
            claims(),
            [],
            id="volumes of other kinds",
        ),
        pytest.param(pod(SCRATCH), claims(("scratch", []), ("p", [])), [made()], id="create-with-other-PVC"),
        pytest.param(pod(SCRATCH), claims(("p-scratch", [])), [FOREIGN], id="wrong-PVC-owner"),
        pytest.param(
            pod(SCRATCH),
            claims(("p-scratch", [{**OWNER, "controller": False}])),
            [FOREIGN],
            id="an owner that does not control it is not enough",
        ),
        pytest.param(
            pod(SCRATCH), claims(("p-scratch", [{**OWNER, "uid": "older"}])), [FOREIGN], id="of an earlier pod"
        ),
        pytest.param(pod(SCRATCH), claims(("p-scratch", [OWNER])), [], id="it is there"),
        pytest.param(
            pod(SCRATCH, {**SCRATCH, "name": "more"}),
            claims(("p-more", [OWNER])),
            [made()],
            id="what is there of several is left alone",
        ),
        pytest.param(
            pod({**SCRATCH, "name": "first"}, SCRATCH, {**SCRATCH, "name": "last"}),
            claims(("p-scratch", [])),
            [made("first"), FOREIGN],
            id="nothing after a refusal",
        ),
        pytest.param(
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
            [made(labels={"a": "b"}, annotations={"c": "d"})],
            id="labels and annotations of the template, and nothing else of its metadata",
        ),
    ],
)
def test_what_a_pod_lacks(asks: Pod, known: dict[str, PersistentVolumeClaim], steps: list[object]) -> None:
    assert decide(asks, known.get) == steps


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        pytest.param(pod(SCRATCH), True, id="one is enough"),
        pytest.param(pod({"name": "c", "persistentVolumeClaim": {"claimName": "c"}}), False, id="only of other kinds"),
        pytest.param(pod(SCRATCH, deletionTimestamp="2026-01-01T00:00:00Z"), False, id="it is being deleted"),
    ],
)
def test_which_pods_are_looked_at(asks: Pod, expected: bool) -> None:
    assert has_ephemeral_volumes(asks) is expected
