"""Readers in the process of the server get the events of changes themselves, not lines of JSON."""

from typing import Any

import msgspec
import pytest

from pilothouse.api.core import CONFIG_MAPS, PODS, Pod
from pilothouse.api.meta import ObjectMeta
from pilothouse.apiserver.serializers import json as serializer
from pilothouse.apiserver.serializers.results import WatchEvent
from pilothouse.apiserver.server import ApiServer
from pilothouse.client import Client
from pilothouse.client.errors import UndecodableObject
from pilothouse.env import Env
from pilothouse.storage import MemoryStore


class Numbers(msgspec.Struct, frozen=True, rename="camel"):
    """A view that some ConfigMaps do not fit."""

    metadata: ObjectMeta
    data: dict[str, int] = {}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "app:v1"}]}}


def clients(env: Env) -> tuple[Client, Client]:
    server = ApiServer(env, MemoryStore(env))
    one, two = (Client(server.transport("admin", ("system:masters",)), env) for _ in range(2))
    return one, two


def encoded_lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of the events that are encoded from now on."""
    types: list[str] = []
    event_line = serializer.event_line

    def record(event: WatchEvent) -> bytes:
        types.append(event.type)
        return event_line(event)

    monkeypatch.setattr(serializer, "event_line", record)
    return types


async def test_readers_share_what_is_decoded_and_no_line_is_encoded(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = clients(env)
    lines = encoded_lines(monkeypatch)
    version = (await one.list(PODS, "default")).metadata.resource_version
    async with (
        one.watch(PODS, "default", resource_version=version) as first,
        two.watch(PODS, "default", resource_version=version) as second,
        two.watch(PODS, "default", resource_version=version, keep_raw=True) as raw,
    ):
        await one.create(PODS, pod("a"), "default")
        await one.create(PODS, pod("b"), "default")
        batches = [await anext(watch) for watch in (first, second, raw)]
    for batch in batches:
        assert [(event.type, event.key) for event in batch] == [("ADDED", "default/a"), ("ADDED", "default/b")]
    assert [event.object for event in batches[0]] == [event.object for event in batches[2]]
    assert all(mine is other for mine, other in zip(batches[0], batches[1], strict=True))
    assert [msgspec.json.decode(event.raw, type=Pod) for event in batches[2]] == [event.object for event in batches[2]]
    assert lines == []


async def test_object_that_does_not_fit_the_view_is_named_and_omitted(env: Env) -> None:
    one, _two = clients(env)
    kind = CONFIG_MAPS.read_as(Numbers)
    version = (await one.list(CONFIG_MAPS.raw, "default")).metadata.resource_version
    omitted: list[UndecodableObject] = []
    async with one.watch(kind, "default", resource_version=version, on_undecodable=omitted.append) as watch:
        for name in ("a", "b"):
            await one.create(CONFIG_MAPS.raw, config_map(name, n="text"), "default")
        await one.create(CONFIG_MAPS.raw, config_map("c"), "default")
        batch = await anext(watch)
    assert [event.key for event in batch] == ["default/c"]
    assert ["configmaps default/a" in str(error) for error in omitted] == [True, False]


async def test_large_objects_are_lines(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded they would need ten times their size, in the memo of each of the latest changes."""
    one, _two = clients(env)
    lines = encoded_lines(monkeypatch)
    version = (await one.list(CONFIG_MAPS.raw, "default")).metadata.resource_version
    async with one.watch(CONFIG_MAPS, "default", resource_version=version) as watch:
        await one.create(CONFIG_MAPS.raw, config_map("large", text="x" * serializer.LARGE_EVENT), "default")
        (event,) = await anext(watch)
    assert event.key == "default/large"
    assert len(event.object.data["text"]) == serializer.LARGE_EVENT
    assert lines == ["ADDED"]
