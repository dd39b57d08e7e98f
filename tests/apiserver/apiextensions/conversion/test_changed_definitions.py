"""Changed and deleted definitions with a conversion webhook, and conversion metrics."""

import asyncio

from tests.apiserver.api import Api
from tests.apiserver.apiextensions.conversion.things import (
    DEFINITION,
    FAILED,
    V1,
    V2,
    Hook,
    good,
    served,
    store_in,
    v1_thing,
)


async def test_changed_definition_uses_the_new_conversion(api: Api) -> None:
    hook = await served(api)
    await api.create(V1, v1_thing())
    await api.get(V2)
    crd = (await api.get(DEFINITION)).body
    crd["spec"]["conversion"] = {"strategy": "None"}
    assert (await api.put(DEFINITION, crd)).status == 200
    hook.requests.clear()
    (item,) = (await api.get(V2)).body["items"]
    assert (item["apiVersion"], item["spec"]) == ("example.com/v2", {"mode": "one"})
    assert hook.calls == []


async def test_definition_deletion_removes_objects_of_every_stored_version(api: Api) -> None:
    hook = await served(api)
    await api.create(V1, v1_thing())
    assert (await api.delete(DEFINITION)).status == 200
    assert hook.calls == []
    assert (await api.get(DEFINITION)).status == 404
    await served(api)
    await api.create(V1, v1_thing())
    await store_in(api, "v2")
    work = asyncio.ensure_future(api.server.run())
    hook = Hook(api)
    hook.failure = "Post: no"
    assert (await api.delete(DEFINITION)).status == 200
    await asyncio.sleep(1)
    conditions = {
        condition["type"]: condition for condition in (await api.get(DEFINITION)).body["status"]["conditions"]
    }
    assert (conditions["Terminating"]["reason"], conditions["Terminating"]["message"]) == (
        "InstanceDeletionFailed",
        f"could not list instances: {FAILED}failed: Post: no",
    )
    hook.failure = ""
    await asyncio.sleep(30)
    assert (await api.get(DEFINITION)).status == 404
    assert api.store.staged("example.com/things/default/a") is None
    work.cancel()


async def test_conversion_metrics(started_api: Api) -> None:
    api = started_api
    hook = await served(api)
    await api.create(V1, v1_thing())
    await api.get(V2 + "/a")
    hook.answer = lambda request: {**good(request), "uid": "x"}
    await api.get(V2 + "/a")
    text = (await api.get("/metrics")).text
    for line in (
        'apiserver_conversion_webhook_request_total{result="success",failure_type=""} 1',
        'apiserver_conversion_webhook_request_total{result="failure",'
        'failure_type="conversion_webhook_malformed_response_failure"} 1',
        'apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="things.example.com",from_version="v1",'
        'to_version="v2",succeeded="true"} 1',
    ):
        assert line in text
