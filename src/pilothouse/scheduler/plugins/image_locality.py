"""ImageLocality: prefer nodes that already have the images of the pod.

As kube-scheduler v1.36 ``plugins/imagelocality``.
"""

from collections.abc import Sequence

from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.normalize_score import MAX_NODE_SCORE

_MB = 1024 * 1024
MIN_THRESHOLD = 23 * _MB
MAX_CONTAINER_THRESHOLD = 1000 * _MB


def score_nodes(cache: Cache, pod_info: PodInfo, positions: Sequence[int]) -> list[int] | None:
    """0 to 100 for the nodes at ``positions``; None when no node gets a score.

    The size of an image counts in proportion to the share of nodes that have it, lest pods pile up on the few nodes
    that pulled it first.
    """
    spec = pod_info.pod.spec
    images = [container.image for container in (*spec.init_containers, *spec.containers)]
    containers = len(images)
    images += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    sums: dict[str, int] = {}
    for image in images:
        state = cache.image_states.get(normalized_image_name(image))
        if state is not None:
            scaled = int(state.size * (len(state.nodes) / len(cache.nodes)))
            for name in state.nodes:
                sums[name] = sums.get(name, 0) + scaled
    score_of = {name: score for name, total in sums.items() if (score := _score(total, containers))}
    if not score_of:
        return None
    node_names = cache.node_names
    return [score_of.get(node_names[i], 0) for i in positions]


def _score(total: int, containers: int) -> int:
    highest = MAX_CONTAINER_THRESHOLD * containers
    return MAX_NODE_SCORE * (min(max(total, MIN_THRESHOLD), highest) - MIN_THRESHOLD) // (highest - MIN_THRESHOLD)


def normalized_image_name(name: str) -> str:
    """The name with the tag ``latest`` if it has none."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name
