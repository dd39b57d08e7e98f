"""The name and ordinal that a pod keeps when it is created again. Pure.

Upstream: v1.36 ``pkg/controller/statefulset/stateful_set_utils.go``.
"""

from pilothouse.api.meta import ObjectMeta

NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
REVISION_LABEL = "controller-revision-hash"

NO_ORDINAL = -1
_LARGEST = 2**31 - 1


def parent_and_ordinal(name: str) -> tuple[str, int]:
    """``web-2`` is ``("web", 2)``. Without a number at the end the result is ``("", -1)``; if the number exceeds 32
    bits there is no ordinal, but the parent is returned."""
    parent, dash, digits = name.rpartition("-")
    if not dash or not (digits.isascii() and digits.isdecimal()):
        return "", NO_ORDINAL
    ordinal = int(digits)
    return parent, ordinal if ordinal <= _LARGEST else NO_ORDINAL


def ordinal_of(name: str) -> int:
    """The number at the end of a pod's name, or ``NO_ORDINAL``."""
    return parent_and_ordinal(name)[1]


def is_member_of(owner: str, name: str) -> bool:
    """Whether a pod with this name belongs to the StatefulSet with that name, if its labels match."""
    return parent_and_ordinal(name)[0] == owner


def pod_name(owner: str, ordinal: int) -> str:
    """The name of the pod, and its hostname."""
    return f"{owner}-{ordinal}"


def identity_matches(meta: ObjectMeta) -> bool:
    """Whether its label with the pod name is correct, by which a Service can select it."""
    return meta.labels.get(NAME_LABEL) == meta.name


def identity_labels(name: str) -> dict[str, str]:
    return {NAME_LABEL: name, INDEX_LABEL: str(ordinal_of(name))}


def revision_of(meta: ObjectMeta) -> str:
    """The name of the ControllerRevision from which a pod was created."""
    return meta.labels.get(REVISION_LABEL, "")
