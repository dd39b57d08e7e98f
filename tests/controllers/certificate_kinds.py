"""The kinds of ``certificates.k8s.io`` that are behind gates which are off, as a server has them where they are on."""

import pytest
from tests.controllers.node_world import Doc, World

from pilothouse.apiserver.apiextensions.strategy import CustomStrategy
from pilothouse.apiserver.registry.core.events import no_name_errors

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "certificates.k8s.io"


def allow_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Custom resources may have no colons in their names; ClusterTrustBundles must."""
    monkeypatch.setattr(CustomStrategy, "validate_name", staticmethod(no_name_errors))


async def serve(world: World, plural: str, kind: str, *, namespaced: bool, selectable: tuple[str, ...] = ()) -> None:
    """Have the kind served, by a definition: the embedded server has none of its own for what is off by default."""
    await world.request("POST", DEFINITIONS, definition(plural, kind, namespaced=namespaced, selectable=selectable))


def definition(plural: str, kind: str, *, namespaced: bool, selectable: tuple[str, ...] = ()) -> Doc:
    """That definition."""
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
