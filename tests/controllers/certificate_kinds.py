"""The kinds of ``certificates.k8s.io`` behind feature gates that are off by default, served as custom resources."""

import pytest
from tests.controllers.node_world import Doc, World

from pilothouse.apiserver.apiextensions.strategy import CustomStrategy
from pilothouse.apiserver.registry.core.events import no_name_errors

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "certificates.k8s.io"


def allow_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow colons in names of custom resources: ClusterTrustBundles require them."""
    monkeypatch.setattr(CustomStrategy, "validate_name", staticmethod(no_name_errors))


async def serve(world: World, plural: str, kind: str, *, namespaced: bool, selectable: tuple[str, ...] = ()) -> None:
    """Serve the kind by a CustomResourceDefinition: the embedded server does not have it by default."""
    await world.request("POST", DEFINITIONS, definition(plural, kind, namespaced=namespaced, selectable=selectable))


def definition(plural: str, kind: str, *, namespaced: bool, selectable: tuple[str, ...] = ()) -> Doc:
    """The CustomResourceDefinition of the kind."""
    spec: Doc = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec["properties"] = {path.rpartition(".")[2]: {"type": "string"} for path in selectable}
    version: Doc = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        "selectableFields": [{"jsonPath": path} for path in selectable],
    }
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/121596"}
    return {
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": approved},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }
