"""Kinds that v1.36 has behind gates, served by the embedded API server as custom resources, so that their controllers
can be tried."""

from typing import Any

from tests import custom_resources
from tests.controllers.node_world import Doc, World

from pilothouse.api.kinds import Kind


async def serve(world: World, kind: Kind[Any]) -> str:
    """Have the kind served, with a status of its own; returns the path of its collection in namespace ``default``, or
    of the whole cluster."""
    await world.request("POST", custom_resources.DEFINITIONS, definition(kind))
    where = "namespaces/default/" if kind.namespaced else ""
    return f"/apis/{kind.group}/{kind.version}/{where}{kind.resource}"


def definition(kind: Kind[Any]) -> Doc:
    """By which it is."""
    return custom_resources.definition(
        kind.kind,
        custom_resources.version(kind.version, subresources={"status": {}}),
        group=kind.group,
        plural=kind.resource,
        namespaced=kind.namespaced,
        approved=True,
    )
