"""Kinds behind feature gates in v1.36, served by the embedded API server as custom resources for tests of their
controllers."""

from typing import Any

from tests import custom_resources
from tests.controllers.node_world import Doc, World

from pilothouse.api.kinds import Kind


async def serve(world: World, kind: Kind[Any]) -> str:
    """Serve the kind, with a status subresource. Returns the path of its collection, in namespace ``default`` if it is
    namespaced."""
    await world.request("POST", custom_resources.DEFINITIONS, definition(kind))
    scope = "namespaces/default/" if kind.namespaced else ""
    return f"/apis/{kind.group}/{kind.version}/{scope}{kind.resource}"


def definition(kind: Kind[Any]) -> Doc:
    """The CustomResourceDefinition of the kind."""
    return custom_resources.definition(
        kind.kind,
        custom_resources.version(kind.version, subresources={"status": {}}),
        group=kind.group,
        plural=kind.resource,
        namespaced=kind.namespaced,
        approved=True,
    )
