"""Events whose object is so large that the server does not copy it for each watch."""

import pytest
from tests.plane.processes.linked import linked

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.apiserver.serializers.json import LARGE_EVENT
from pilothouse.env import Env
from pilothouse.plane.clients import ADMIN, LocalClients


@pytest.mark.parametrize("remote", [False, True], ids=["one process", "two processes"])
async def test_initial_events_of_large_objects_are_read(env: Env, remote: bool) -> None:
    async with linked(env) as plane:
        connect = plane.connection.transport if remote else plane.server.transport
        client = LocalClients(env, connect).client("manager", *ADMIN)
        sizes = {"a": 1, "b": LARGE_EVENT + 1, "c": 2, "d": 2 * LARGE_EVENT}
        for name, size in sizes.items():
            body = {"metadata": {"name": name}, "data": {"key": "x" * size}}
            await client.create(CONFIG_MAPS.raw, body, "default")
        async with client.watch(CONFIG_MAPS, "default") as watch:
            events = [event for event in await anext(watch) if event.type == "ADDED"]
        assert {event.object.metadata.name: len(event.object.data["key"]) for event in events} == sizes
