"""Long lists are encoded like short ones, and yield to other tasks."""

import asyncio
import datetime
from typing import Any

import msgspec
import pytest
from tests.apiserver.api import CONFIG_MAPS, Api
from tests.custom_resources import definition

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.serializers import presenter
from pilothouse.apiserver.serializers.presenter import NegotiatingPresenter
from pilothouse.apiserver.serializers.results import ListResult

FORMS = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
]
ODD = {"long": "word " * 100, "lines": "a\nb\n", "null": "null", "number": "1e3", "items": "items: []\n", "odd": "ü: #"}
DEFINITION = definition("Thing")


async def _encodings(api: Api, target: str, accept: str) -> tuple[bytes, bytes]:
    """A list encoded as a whole, and in time slices."""
    read: list[tuple[Request, Any, ListResult]] = []
    showing = NegotiatingPresenter(lambda: datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))

    class Remembering(NegotiatingPresenter):
        def is_plain(self, request: Request, info: Any) -> bool:
            return False

        async def show_long(self, request: Request, info: Any, result: Any) -> Any:
            read.append((request, info, result))
            return await super().show_long(request, info, result)

    api.server.presenter = Remembering(api.env.now)
    await api.transport.request(Request("GET", target, {"accept": accept}))
    ((request, info, result),) = read
    response = showing.show(request, info, result)
    in_turns = await showing.show_long(request, info, result)
    assert isinstance(response, Response)
    assert isinstance(in_turns, Response)
    assert response.headers == in_turns.headers
    return response.body, in_turns.body


@pytest.mark.parametrize("accept", FORMS)
@pytest.mark.parametrize("custom", [False, True], ids=["built-in", "custom"])
@pytest.mark.parametrize("page", ["", "?limit=2"])
async def test_long_and_short_lists_are_encoded_identically(
    api: Api, monkeypatch: pytest.MonkeyPatch, accept: str, custom: bool, page: str
) -> None:
    monkeypatch.setattr(presenter, "_BYTES_PER_TURN", 0)
    target = CONFIG_MAPS
    more: dict[str, Any] = {"data": ODD}
    if custom:
        working = asyncio.ensure_future(api.server.run())
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
        await asyncio.sleep(5)
        target = "/apis/example.com/v1/namespaces/default/things"
        more = {"apiVersion": "example.com/v1", "kind": "Thing", "spec": ODD}
    for name in "abc":
        await api.create(target, {"metadata": {"name": name, "labels": {"a": name}}, **more})
    if custom:
        working.cancel()
        if "protobuf" in accept and "as=" not in accept:
            return  # which custom resources have not
    response, in_turns = await _encodings(api, f"{target}{page}", accept)
    assert response == in_turns


async def test_list_that_is_many_times_as_large_as_its_objects_is_an_error(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presenter, "_BYTES_PER_TURN", 0)
    monkeypatch.setattr(presenter, "_MAX_ADDED", 600)
    monkeypatch.setattr(presenter, "_MAX_TIMES", 0)
    for number in range(3):
        await api.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}})
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    answer = await api.request("GET", CONFIG_MAPS, accept=table)
    assert (answer.status, "request fewer objects" in answer.text) == (413, True)
    assert (await api.request("GET", f"{CONFIG_MAPS}?limit=1", accept=table)).status == 200


async def test_encoding_a_long_list_yields_to_other_tasks(api: Api) -> None:
    for number in range(20):
        await api.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}, "data": {"key": "x" * 3000}})
    listing = asyncio.ensure_future(api.request("GET", CONFIG_MAPS, accept="application/yaml"))
    turns = 0
    while not listing.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(msgspec.yaml.decode((await listing).text)["items"]) == 20
    assert turns > 10
