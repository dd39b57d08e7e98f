"""Manifests of CustomResourceDefinitions."""

from typing import Any

Doc = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANY: Doc = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""A schema that allows any field."""


def schema(spec: Doc | None = None, **properties: Doc) -> Doc:
    """The schema of an object with these properties and ``spec``."""
    return {"type": "object", "properties": {**({} if spec is None else {"spec": spec}), **properties}}


def version(name: str = "v1", schema: Doc = ANY, *, storage: bool = True, **fields: Any) -> Doc:
    """A served version; ``fields`` are its other fields, such as ``subresources``."""
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
    """A CustomResourceDefinition, by default with one version that allows any field.

    ``names`` are additional names; ``approved`` adds the annotation that protected groups require."""
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
