"""The condition Dangling of FlowSchemas (apiserver ``pkg/util/flowcontrol``, v0.36)."""

import asyncio
from collections import Counter

import pytest
from tests.apiserver.api import Api, Object

from pilothouse.apiserver.controllers import flow_schema_status

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1/"
SCHEMAS, LEVELS = GROUP + "flowschemas", GROUP + "prioritylevelconfigurations"
LEVEL_SPEC = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
CONSUMER = "api-priority-and-fairness-config-consumer-v1"


def schema(name: str, level: str) -> Object:
    subjects = [{"kind": "User", "user": {"name": "u"}}]
    rules = [{"subjects": subjects, "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]}]
    return {"metadata": {"name": name}, "spec": {"priorityLevelConfiguration": {"name": level}, "rules": rules}}


async def dangling(api: Api, name: str) -> tuple[str, str]:
    await asyncio.sleep(1)
    [condition] = (await api.get(f"{SCHEMAS}/{name}")).body["status"]["conditions"]
    assert list(condition) == ["type", "status", "lastTransitionTime", "reason", "message"]
    return condition["status"], condition["message"].removeprefix(
        'This FlowSchema references the PriorityLevelConfiguration object named "l" '
    )


async def test_dangling_follows_the_priority_level(started_api: Api) -> None:
    api = started_api
    await api.create(SCHEMAS, schema("a", "l"))
    assert await dangling(api, "a") == ("True", "but there is no such object")
    await api.create(LEVELS, {"metadata": {"name": "l"}, "spec": LEVEL_SPEC})
    assert await dangling(api, "a") == ("False", "and it exists")
    await api.create(SCHEMAS, schema("b", "l"))
    await api.create(SCHEMAS, schema("c", "catch-all"))
    assert await dangling(api, "b") == ("False", "and it exists")
    written = (await api.get(f"{SCHEMAS}/c")).meta["resourceVersion"]
    await api.delete(f"{LEVELS}/l")
    assert await dangling(api, "a") == await dangling(api, "b") == ("True", "but there is no such object")
    assert (await api.get(f"{SCHEMAS}/c")).meta["resourceVersion"] == written


async def test_condition_is_applied_by_the_consumer_of_the_configuration(started_api: Api) -> None:
    api = started_api
    await api.create(SCHEMAS, schema("a", "l"))
    await dangling(api, "a")
    entry = next(
        entry for entry in (await api.get(f"{SCHEMAS}/a")).meta["managedFields"] if entry["manager"] == CONSUMER
    )
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")
    assert list(entry["fieldsV1"]["f:status"]["f:conditions"]) == ['k:{"type":"Dangling"}']


async def test_many_schemas_are_synced_in_turns(started_api: Api) -> None:
    api = started_api
    await asyncio.gather(*(api.create(SCHEMAS, schema(f"s-{number}", "l")) for number in range(250)))
    await asyncio.sleep(1)
    obj = (await api.get(SCHEMAS)).body["items"]
    conditions = [item["status"]["conditions"][0]["status"] for item in obj if item["metadata"]["name"][:2] == "s-"]
    assert conditions == ["True"] * 250


async def test_other_tasks_run_between_syncs(started_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api = started_api
    await api.create(LEVELS, {"metadata": {"name": "l"}, "spec": LEVEL_SPEC})
    await asyncio.gather(*(api.create(SCHEMAS, schema(f"s-{number}", "l")) for number in range(100)))
    await asyncio.sleep(1)
    turns: list[int] = []
    loop_turn = 0
    condition = flow_schema_status.dangling_condition

    def recorded(level: str, now: str, *, exists: bool) -> Object:
        turns.append(loop_turn)
        return condition(level, now, exists=exists)

    monkeypatch.setattr(flow_schema_status, "dangling_condition", recorded)
    await api.delete(f"{LEVELS}/l")
    while len(turns) < 100:  # on etcd this takes more turns than in memory
        loop_turn += 1
        await asyncio.sleep(0)
    assert max(Counter(turns).values()) <= 20, "ten are written, and found to be up to date"


async def test_condition_is_written_again_after_a_failed_commit(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = flow_schema_status.FlowSchemaStatus(api.server.core)
    await api.create(SCHEMAS, schema("a", "l"))
    uncommitted = object()
    monkeypatch.setattr(flow_schema_status, "stage_object", lambda *_arguments, **_options: uncommitted)
    assert controller.stage() is uncommitted
    assert controller.stage() is uncommitted
    monkeypatch.undo()
    written = controller.stage()
    assert written is not None
    await api.store.commit(written)
    assert controller.stage() is None
