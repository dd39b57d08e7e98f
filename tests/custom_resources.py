"""Definitions of custom resources."""

from typing import Any

Doc = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANY: Doc = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""The schema that has every field."""


def schema(spec: Doc | None = None, **properties: Doc) -> Doc:
    """That of an object with these properties, of which ``spec`` is one."""
    return {"type": "object", "properties": {**({} if spec is None else {"spec": spec}), **properties}}


def version(name: str = "v1", schema: Doc = ANY, *, storage: bool = True, **fields: Any) -> Doc:
    """One that is served; ``fields`` are its others, as ``subresources``."""
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **fields}


def definition(
    kind: str,
    *versions: Doc,
    group: str = "example.com",
    plural: str = "",
    namespaced: bool = True,
    approved: bool = False,
    names: Doc | None = None,
    **spec: Any,
) -> Doc:
    """A CustomResourceDefinition, of one version that has every field if none is given.

    ``names`` are more of its names; ``approved`` is for groups of Kubernetes' own."""
    plural = plural or f"{kind.lower()}s"
    annotations = {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", **({"annotations": annotations} if approved else {})},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"plural": plural, "kind": kind, **(names or {})},
            "versions": list(versions or [version()]),
            **spec,
        },
    }
