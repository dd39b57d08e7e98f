"""Kinds that v1.36 has behind gates, served by the embedded API server as custom resources, so that their controllers
can be tried."""

from typing import Any

from tests.controllers.node_world import Doc, World

from pilothouse.api.kinds import Kind


async def serve(world: World, kind: Kind[Any]) -> str:
    """Have the kind served, with a status of its own; returns the path of its collection in namespace ``default``, or
    of the whole cluster."""
    await world.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(kind))
    where = "namespaces/default/" if kind.namespaced else ""
    return f"/apis/{kind.group}/{kind.version}/{where}{kind.resource}"


def definition(kind: Kind[Any]) -> Doc:
    """By which it is."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": kind.version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"plural": kind.resource, "kind": kind.kind, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    return {
        "metadata": {
            "name": f"{kind.resource}.{kind.group}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }
