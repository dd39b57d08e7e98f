"""The index of pods by each of their labels. Every controller that looks pods up by a selector adds it to the shared
cache, which keeps one."""

from pilothouse.api.core import Pod

LABEL_INDEX = "namespacedLabel"


def labelled(namespace: str, key: str, value: str) -> str:
    """The value under which the index has the pods of a namespace that carry this label."""
    return f"{namespace}/{key}={value}"


def index_by_label(pod: Pod) -> tuple[str, ...]:
    """The index function of ``LABEL_INDEX``."""
    meta = pod.metadata
    namespace = meta.namespace
    # ``labelled``, without a call for each label of every version of every pod.
    return tuple([f"{namespace}/{key}={value}" for key, value in meta.labels.items()])
