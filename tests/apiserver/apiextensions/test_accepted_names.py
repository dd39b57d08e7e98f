"""Which names of a definition are accepted (apiextensions-apiserver ``pkg/controller/status``, v0.36)."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests import custom_resources
from tests.apiserver.api import Answer, Api, Object
from tests.apiserver.apiextensions.test_custom_resources import DEFINITION, FOOS, definition
from tests.custom_resources import DEFINITIONS

from pilothouse.apiserver.apiextensions.controller import CustomResources


async def test_conflicting_names_are_not_accepted(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    other = definition()
    other["metadata"]["name"] = "bars.example.com"
    other["spec"]["names"] = {"plural": "bars", "kind": "Foo"}
    await api.create(DEFINITIONS, other)
    answer = await api.get(DEFINITIONS + "/bars.example.com")
    listed = await api.get(FOOS.replace("foos", "bars"))
    conditions = {c["type"]: (c["status"], c["reason"], c["message"]) for c in answer.body["status"]["conditions"]}
    assert conditions == {
        "NamesAccepted": ("False", "ListKindConflict", '"FooList" is already in use'),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert answer.body["status"]["acceptedNames"] == {"plural": "bars", "kind": ""}
    assert listed.status == 404


def _named(plural: str, kind: str, *short_names: str) -> Object:
    return custom_resources.definition(kind, plural=plural, names={"shortNames": list(short_names)})


@pytest.mark.parametrize("store_kind", ["memory", pytest.param("etcd", marks=pytest.mark.real)], indirect=True)
async def test_accepted_names_that_a_user_removes_are_not_free_for_others(api: Api) -> None:
    running = asyncio.ensure_future(api.server.run())
    await api.create(DEFINITIONS, _named("foos", "Foo", "x"))
    await api.create(DEFINITIONS, _named("bars", "Bar", "x"))
    for _time in range(5):
        foos = (await api.get(f"{DEFINITIONS}/foos.example.com")).body
        foos["status"]["acceptedNames"] = {"plural": "", "kind": ""}
        assert (await api.put(f"{DEFINITIONS}/foos.example.com/status", foos)).status == 200
        await asyncio.sleep(0.05)
        accepted = [
            (await api.get(f"{DEFINITIONS}/{plural}.example.com")).body["status"]["acceptedNames"].get("shortNames")
            for plural in ("foos", "bars")
        ]
        assert accepted == [["x"], None]
    running.cancel()


async def test_names_of_a_deleted_definition_are_accepted_for_others(api: Api) -> None:
    """``requeueAllOtherGroupCRDs`` of upstream's naming controller."""
    running = asyncio.ensure_future(api.server.run())
    await api.create(DEFINITIONS, _named("foos", "Foo", "x"))
    await api.create(DEFINITIONS, _named("bars", "Bar", "x", "y"))
    await api.create(DEFINITIONS, _named("bazes", "Foo"))
    before = [
        (await api.get(f"/apis/example.com/v1/namespaces/default/{plural}")).status for plural in ("bars", "bazes")
    ]
    await api.delete(DEFINITION)
    await asyncio.sleep(1)
    after = [
        (await api.get(f"/apis/example.com/v1/namespaces/default/{plural}")).status for plural in ("bars", "bazes")
    ]
    bars = await api.get(DEFINITIONS + "/bars.example.com")
    running.cancel()
    assert (before, after) == ([404, 404], [200, 200])
    assert bars.body["status"]["acceptedNames"] == {
        "plural": "bars",
        "singular": "bar",
        "kind": "Bar",
        "listKind": "BarList",
        "shortNames": ["x", "y"],
    }


async def test_established_definition_keeps_its_names_while_new_ones_are_in_use(api: Api) -> None:
    def listed(answer: Answer) -> Any:
        return {each["name"]: each.get("shortNames") for each in answer.body["resources"]}

    running = asyncio.ensure_future(api.server.run())
    await api.create(DEFINITIONS, _named("foos", "Foo", "x"))
    await api.create(DEFINITIONS, _named("bars", "Bar", "y"))
    names = {"shortNames": ["x", "z"], "categories": ["all"]}
    await api.patch(DEFINITIONS + "/bars.example.com", {"spec": {"names": names}})
    bars = await api.get(DEFINITIONS + "/bars.example.com")
    before = await api.get("/apis/example.com/v1")
    await api.patch(DEFINITION, {"spec": {"names": {"shortNames": ["w"]}}})
    await asyncio.sleep(1)
    after = await api.get("/apis/example.com/v1")
    running.cancel()
    assert bars.body["status"]["acceptedNames"]["shortNames"] == ["y"]
    assert bars.body["status"]["acceptedNames"]["categories"] == ["all"]
    reasons = [each["reason"] for each in bars.body["status"]["conditions"]]
    assert reasons == ["ShortNamesConflict", "InitialNamesAccepted"]
    assert listed(before) == {"foos": ["x"], "bars": ["y"]}
    assert listed(after) == {"foos": ["w"], "bars": ["x", "z"]}


async def test_definitions_that_wait_for_a_name_are_checked_only_when_it_is_free(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checking all of the group after each write would be quadratic for each definition that somebody creates."""
    checked: Counter[str] = Counter()
    sync = CustomResources.sync

    async def counting(self: CustomResources, name: str) -> None:
        checked[name] += 1
        await sync(self, name)

    monkeypatch.setattr(CustomResources, "sync", counting)
    running = asyncio.ensure_future(api.server.run())
    await api.create(DEFINITIONS, _named("foos", "Foo", "x"))
    for number in range(20):
        await api.create(DEFINITIONS, _named(f"bars{number}", f"Bar{number}", "x"))
    await asyncio.sleep(1)
    first = dict(checked)
    await api.delete(DEFINITION)
    await asyncio.sleep(1)
    running.cancel()
    waiting = [name for name in checked if name.startswith("bars")]
    assert [(first[name], checked[name]) for name in waiting] == [(1, 2)] * 20
