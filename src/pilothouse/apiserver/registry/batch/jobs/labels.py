"""Labels of Jobs and of their pod templates."""

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object

PREFIX = "batch.kubernetes.io/"


def labels_of(obj: Object) -> dict[str, str]:
    labels: dict[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return labels


def default_labels(obj: Object) -> None:
    """Give a Job without labels those of its pod template.

    As upstream it is the same map: labels that are then generated for the template are also labels of the Job.
    """
    labels = labels_of(obj["spec"].get("template") or {})
    if labels and not labels_of(obj):
        ensure_object(obj, "metadata")["labels"] = labels
