"""ImageLocality: prefer nodes that already have the images of the pod.

As kube-scheduler v1.36 ``plugins/imagelocality``.
"""

from collections.abc import Sequence

from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.types import PodInfo, take
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
    states = [state for image in images if (state := cache.image_states.get(normalized_image_name(image))) is not None]
    if not states:
        return None
    names = take(cache.node_names, positions)
    sums = [0] * len(names)
    for state in states:
        scaled = int(state.size * (len(state.nodes) / len(cache.nodes)))
        nodes = state.nodes
        sums = [total + scaled if name in nodes else total for total, name in zip(sums, names, strict=True)]
    score_of = {total: _score(total, containers) for total in set(sums)}
    return [score_of[total] for total in sums] if any(score_of.values()) else None


def _score(total: int, containers: int) -> int:
    highest = MAX_CONTAINER_THRESHOLD * containers
    return MAX_NODE_SCORE * (min(max(total, MIN_THRESHOLD), highest) - MIN_THRESHOLD) // (highest - MIN_THRESHOLD)


def normalized_image_name(name: str) -> str:
    """The name with the tag ``latest`` if it has none."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name
