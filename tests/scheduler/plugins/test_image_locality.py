"""ImageLocality as kube-scheduler v1.36's ``plugins/imagelocality/image_locality_test.go``."""

from typing import Any

import pytest
from tests.scheduler.build import node, pod
from tests.tables import cases

from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.image_locality import normalized_image_name, score_nodes

MB = 1024 * 1024
NODE_403002000 = [
    {"names": ["gcr.io/40:latest", "gcr.io/40:v1"], "sizeBytes": 40 * MB},
    {"names": ["gcr.io/300:latest", "gcr.io/300:v1"], "sizeBytes": 300 * MB},
    {"names": ["gcr.io/2000:latest"], "sizeBytes": 2000 * MB},
]
NODE_25010 = [
    {"names": ["gcr.io/250:latest"], "sizeBytes": 250 * MB},
    {"names": ["gcr.io/10:latest", "gcr.io/10:v1"], "sizeBytes": 10 * MB},
]
NODE_60040900 = [
    {"names": ["gcr.io/600:latest"], "sizeBytes": 600 * MB},
    {"names": ["gcr.io/40:latest"], "sizeBytes": 40 * MB},
    {"names": ["gcr.io/900:latest"], "sizeBytes": 900 * MB},
]
NODE_300600900 = [
    {"names": ["gcr.io/300:latest"], "sizeBytes": 300 * MB},
    {"names": ["gcr.io/600:latest"], "sizeBytes": 600 * MB},
    {"names": ["gcr.io/900:latest"], "sizeBytes": 900 * MB},
]


def containers(*images: str) -> list[dict[str, Any]]:
    return [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]


def scores(nodes: list[list[dict[str, Any]]], **spec: Any) -> list[int] | None:
    cache = Cache()
    for number, images in enumerate(nodes):
        cache.update_node(node(f"n{number}", images=images))
    return score_nodes(cache, PodInfo(pod(**spec)), range(len(cache.node_infos)))


@cases(
    "images, nodes, expected",
    {
        # 40 MB / 2 is below the threshold; (250 MB / 2 - 23 MB) / (2 * 1000 MB - 23 MB)
        "a small image does not count": (("gcr.io/40", "gcr.io/250"), [NODE_403002000, NODE_25010], [0, 5]),
        # (40 MB + 300 MB) / 2 - 23 MB over 1,977 MB; the other node has the small image of 10 MB only
        "images of one node add up": (("gcr.io/40", "gcr.io/300"), [NODE_403002000, NODE_25010], [7, 0]),
        # 2000 MB / 2 is the threshold of one container, half of that of two
        "an image above the threshold": (("gcr.io/10", "gcr.io/2000"), [NODE_403002000, NODE_25010], [49, 0]),
        "a single container": (("gcr.io/2000",), [NODE_403002000, NODE_25010], [100, 0]),
        # 300 MB / 3 + 600 MB * 2/3 + 900 MB * 2/3
        "images of several nodes": (
            ("gcr.io/300", "gcr.io/600", "gcr.io/900"), [NODE_60040900, NODE_300600900, []], [32, 36, 0],
        ),
        "no node has an image": (("gcr.io/30",), [NODE_403002000, NODE_25010], None),
    },
)  # fmt: skip
def test_score(images: tuple[str, ...], nodes: list[list[dict[str, Any]]], expected: list[int] | None) -> None:
    assert scores(nodes, containers=containers(*images)) == expected


def test_init_containers_and_image_volumes_count() -> None:
    mounted = [{"name": "v", "image": {"reference": "gcr.io/2000"}}]
    assert scores([NODE_403002000, []], containers=containers("gcr.io/10"), volumes=mounted) == [100, 0]
    assert scores([NODE_403002000, []], containers=containers("a"), initContainers=containers("gcr.io/300")) == [6, 0]


def test_images_of_nodes_that_change_and_go_are_forgotten() -> None:
    cache = Cache()
    cache.update_node(node("a", images=NODE_403002000))
    cache.update_node(node("b", images=NODE_25010))
    assert cache.image_states["gcr.io/250:latest"].nodes == {"b"}
    cache.update_node(node("b", images=NODE_403002000))
    assert cache.image_states["gcr.io/40:v1"].nodes == {"a", "b"}
    assert "gcr.io/250:latest" not in cache.image_states
    cache.remove_node("b")
    cache.remove_node("a")
    assert cache.image_states == {}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("root", "root:latest"), ("root:tag", "root:tag"), ("gcr.io:5000/root", "gcr.io:5000/root:latest"),
        ("root@" + "sha256:" + "a" * 64, "root@" + "sha256:" + "a" * 64),
    ],
)  # fmt: skip
def test_normalized_image_name(name: str, expected: str) -> None:
    assert normalized_image_name(name) == expected
