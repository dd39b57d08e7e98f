"""Labels of Jobs and of their pod templates."""

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object

PREFIX = "batch.kubernetes.io/"


def labels_of(obj: Object) -> dict[str, str]:
    labels: dict[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return labels


def default_labels(obj: Object) -> None:
    """Copy the labels of the pod template to a Job without labels."""
    labels = labels_of(obj["spec"].get("template") or {})
    if labels and not labels_of(obj):
        ensure_object(obj, "metadata")["labels"] = dict(labels)
