"""The index of pods by each of their labels, shared by the controllers that add it."""

from functools import partial

from pilothouse.api.core import Pod
from pilothouse.machinery.labels import Selector
from pilothouse.runtime.cache import Cache

LABEL_INDEX = "namespacedLabel"


def label_index_value(namespace: str, key: str, value: str) -> str:
    """The index value of the pods of a namespace with this label."""
    return f"{namespace}/{key}={value}"


def index_by_label(pod: Pod) -> tuple[str, ...]:
    meta = pod.metadata
    namespace = meta.namespace
    # ``label_index_value``, without a call for each label of every version of every pod.
    return tuple([f"{namespace}/{key}={value}" for key, value in meta.labels.items()])


def required_label(selector: Selector) -> tuple[str, str] | None:
    """A label that every matching pod has, if the selector requires one."""
    return next(selector.exact_labels(), None)


def pods_selected(pods: Cache[Pod], namespace: str, selector: Selector) -> list[Pod]:
    """The pods of the namespace that the selector selects, in any phase, sorted by name. The cache has the index.

    Only the pods with the rarest of the labels that the selector requires are compared.
    """
    if selector.selects_nothing:
        return []
    required = [label_index_value(namespace, key, value) for key, value in selector.exact_labels()]
    if not required:
        candidates = pods.list(namespace)
    else:
        rarest = required[0] if len(required) == 1 else min(required, key=partial(pods.count, LABEL_INDEX))
        candidates = pods.by_index(LABEL_INDEX, rarest)
    if len(selector.requirements) == bool(required):
        return candidates
    matches = selector.matches
    return [pod for pod in candidates if matches(pod.metadata.labels)]
