"""Documents of workloads: objects with a selector and a template of pods."""

from typing import Any

Doc = dict[str, Any]


def pod_spec(image: str = "pause", *, container: str = "main", **spec: Any) -> Doc:
    """That of a pod with one container."""
    return {"containers": [{"name": container, "image": image}], **spec}


def workload(
    kind: str,
    name: str = "web",
    *,
    pod: Doc,
    labels: Doc | None = None,
    metadata: Doc | None = None,
    **spec: Any,
) -> Doc:
    """An object of apps/v1 whose pods have the spec ``pod``, and these labels (``app=NAME`` if none are given)."""
    labels = {"app": name} if labels is None else labels
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }
