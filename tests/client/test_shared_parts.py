"""Equal parts of decoded objects are shared, and objects are otherwise unchanged."""

import itertools
from typing import Any

import msgspec
import pytest

from pilothouse.api.core import Node, Pod
from pilothouse.client import decode, shared_parts
from pilothouse.client.decode import decoders_of
from pilothouse.nodes.views import NodePod


def pod(number: int, *, volumes: list[Any] | None = None, **status: Any) -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {
                "name": f"web-{number}",
                "namespace": "default",
                "uid": f"uid-{number}",
                "labels": {"app": "web"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "owner", "controller": True}],
            },
            "spec": {
                "nodeName": f"node-{number}",
                "containers": [{"name": "main", "image": "app:v1", "resources": {"requests": {"cpu": "1"}}}],
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "volumes": volumes if volumes is not None else [{"name": f"token-{number}", "secret": {"items": []}}],
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:{number % 60:02}Z"},
                    {"type": "PodScheduled", "status": "True"},
                ],
                **status,
            },
        }
    )


def read(view: type[Any], *bodies: bytes) -> list[Any]:
    parts = shared_parts.shared_parts_of(view)
    assert parts is not None
    result = []
    for body in bodies:
        obj = decoders_of(view).one(body, lambda: "")
        parts.share(obj)
        assert obj == msgspec.json.decode(body, type=view)
        result.append(obj)
    return result


@pytest.mark.parametrize("view", [Pod, NodePod])
def test_pods_of_one_owner_share_equal_parts(view: type[Any]) -> None:
    one, two = read(view, pod(1), pod(2))
    assert two.metadata.labels is one.metadata.labels
    assert two.metadata.owner_references is one.metadata.owner_references
    assert two.spec.containers is one.spec.containers
    assert two.spec.tolerations is one.spec.tolerations
    assert two.status.conditions[0].type is one.status.conditions[0].type
    assert two.status.conditions[1] is one.status.conditions[1]


def test_parts_are_shared_from_a_minimum_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_FEW", 3)
    decoders = decode.Decoders(Pod)
    kept = [decoders.share(decoders.one(pod(number), lambda: "")) for number in range(6)]
    shared = [two.spec.containers is one.spec.containers for one, two in itertools.pairwise(kept)]
    assert shared == [False, False, False, True, True]


def test_changed_parts_are_not_shared() -> None:
    pods = read(NodePod, pod(1), pod(2, phase="Failed"), pod(3, conditions=[]), pod(4, volumes=[]), pod(5))
    assert [item.metadata.name for item in pods] == ["web-1", "web-2", "web-3", "web-4", "web-5"]
    assert [len(item.spec.volumes) for item in pods] == [1, 1, 1, 0, 1]


def test_free_form_values_are_not_shared() -> None:
    """In Python ``1``, ``1.0`` and ``True`` are equal."""
    templates = [1, 1.0, True]
    volumes = [[{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": template}}}] for template in templates]
    pods = read(NodePod, *(pod(1, volumes=volume) for volume in volumes))
    result = [item.spec.volumes[0].ephemeral.volume_claim_template["spec"] for item in pods]
    assert list(map(repr, result)) == list(map(repr, templates))


def test_nodes_share_equal_parts() -> None:
    bodies = [
        msgspec.json.encode(
            {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready"}]}}
        )
        for name in ("a", "b")
    ]
    one, two = read(Node, *bodies)
    assert two.status.allocatable is one.status.allocatable
    assert two.metadata.name == "b"


def test_equal_texts_within_a_pod_and_names_of_nodes_are_shared() -> None:
    one, two = read(Pod, pod(1, podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}]), pod(1, podIP="10.0.0.2", podIPs=[]))
    assert one.status.pod_ips[0].ip is one.status.pod_ip
    assert two.spec.node_name is one.spec.node_name


def test_number_of_models_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_parts, "_MAX_PREVIOUS", 8)
    parts = shared_parts.SharedParts(lambda obj: obj.metadata.name)
    for number in range(100):
        parts.share(msgspec.json.decode(pod(number), type=Pod))
        assert len(parts._recent) + len(parts._older) <= 8
