"""Conversion webhooks that fail, are slow or respond incorrectly, and how they are called (texts from v1.36)."""

import asyncio
from typing import Any

import pytest
from tests.apiserver.api import MERGE, Answer, Api, Object
from tests.apiserver.apiextensions.conversion.things import (
    CALLED,
    FAILED,
    V1,
    V2,
    good,
    served,
    spec_of,
    stored,
    v1_thing,
    v2_thing,
)
from tests.tables import cases

from pilothouse.semantics.nodes import SIMULATED_RUNTIME_VERSION

APPLY = "application/apply-patch+yaml"


VERBS = {
    "get": ("GET", "", None, MERGE),
    "update": ("PUT", "", "seen", MERGE),
    "patch": ("PATCH", "", {"metadata": {"annotations": {"patch": "true"}}}, MERGE),
    "apply": ("PATCH", "?fieldManager=m&force=true", v2_thing(), APPLY),
    "delete": ("DELETE", "", None, MERGE),
    "status get": ("GET", "/status", None, MERGE),
    "status update": ("PUT", "/status", "seen", MERGE),
    "status patch": ("PATCH", "/status", {"status": {"count": 1}}, MERGE),
    "scale get": ("GET", "/scale", None, MERGE),
    "scale update": (
        "PUT",
        "/scale",
        {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 42}},
        MERGE,
    ),
    "scale patch": ("PATCH", "/scale", {"spec": {"replicas": 1}}, MERGE),
}


@cases("method, path, body, content_type", VERBS)
async def test_every_verb_fails_if_the_conversion_fails(
    api: Api, method: str, path: str, body: Any, content_type: str
) -> None:
    """``expectConversionFailureMessage``."""

    def failing(request: Object) -> Object:
        result = {"status": "Failure", "message": "custom webhook conversion error"}
        return {"uid": request["uid"], "convertedObjects": [], "result": result}

    hook = await served(api)
    await api.create(V1, v1_thing(replicas=1))
    if body == "seen":
        body = (await api.get(V2 + "/a")).body
        body["spec"]["port"] = "9"
    hook.answer = failing
    before = stored(api)
    answer = await api.request(method, f"{V2}/a{path}", body, "application/json" if method == "PUT" else content_type)
    failed = FAILED
    if method == "PUT" and path != "/scale":
        # The existing object has already been converted, as for upstream's watch cache: only the new one is converted.
        failed = failed.replace("v1", "v2")
    assert (answer.status, answer.message) == (500, failed + "failed: custom webhook conversion error")
    assert "reason" not in answer.body
    assert stored(api) == before


async def test_deletecollection_and_create_fail_if_the_conversion_fails(api: Api) -> None:
    hook = await served(api)
    await api.create(V1, v1_thing())
    hook.failure = "Post: no"
    for answer in (await api.get(V2), await api.delete(V2)):
        assert (answer.status, answer.message) == (500, FAILED + "failed: Post: no")
    created = await api.post(V2, v2_thing("b"))
    assert (created.status, created.message) == (
        500,
        "conversion webhook for example.com/v2, Kind=Thing failed: Post: no",
    )
    assert [item["metadata"]["name"] for item in (await api.get(V1)).body["items"]] == ["a"]


def _converted(change: Any) -> Any:
    def answer(request: Object) -> Object:
        response = good(request)
        for obj in response["convertedObjects"]:
            change(obj)
        return response

    return answer


@cases(
    "answer, message",
    {
        "no converted objects": (
            lambda request: {**good(request), "convertedObjects": []},
            "returned 0 objects, expected 1",
        ),
        "another request uid": (
            lambda request: {**good(request), "uid": "x"},
            'failed: expected response.uid="{uid}", got "x"',
        ),
        "a failure": (
            lambda request: {**good(request), "result": {"status": "Failure", "message": "no way"}},
            "failed: no way",
        ),
        "404": (lambda _request: {"http": 404}, "failed: the server could not find the requested resource"),
        "400": (lambda _request: {"http": 400}, "failed: the server rejected our request for an unknown reason"),
        "another object uid": (
            _converted(lambda obj: obj["metadata"].update(uid="42")),
            "returned invalid object: must have the same UID: {object} != 42",
        ),
        "not converted": (
            _converted(lambda obj: obj.update(apiVersion="example.com/v1")),
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received "
            "example.com/v1)",
        ),
        "missing apiVersion": (
            _converted(lambda obj: obj.pop("apiVersion")),
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received )",
        ),
        "invalid label": (
            _converted(lambda obj: obj["metadata"].update(labels={"a b": "c"})),
            'returned invalid metadata: metadata.labels: Invalid value: "a b": name part must consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
            "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
    },
)
async def test_invalid_response_errors(api: Api, answer: Any, message: str) -> None:
    hook = await served(api, answer)
    created = await api.create(V1, v1_thing())
    response = await api.get(V2 + "/a")
    message = message.replace("{uid}", hook.requests[0]["uid"]).replace("{object}", created["metadata"]["uid"])
    assert (response.status, response.message) == (500, FAILED + message)


async def test_errors_without_the_webhook_name(api: Api) -> None:
    """``return nil, err`` (webhook_converter.go, v1.36)."""
    hook = await served(api, lambda request: {**good(request), "convertedObjects": [None]})
    await api.create(V1, v1_thing())
    assert (await api.get(V2 + "/a")).message == "unexpected end of JSON input"
    hook.answer = lambda request: {**good(request), "convertedObjects": [{"apiVersion": "example.com/v2"}]}
    missing = "Object 'Kind' is missing in '{\"apiVersion\":\"example.com/v2\"}'"
    assert (await api.get(V2 + "/a")).message == missing
    await api.create(V1, v1_thing("b"))
    hook.answer = lambda request: {**good(request), "convertedObjects": [*good(request)["convertedObjects"][:1], {}]}
    listed = await api.get(V2)
    assert listed.message == FAILED + "returned invalid converted object at index 1: Object 'Kind' is missing in '{}'"


async def test_webhook_times_out_after_thirty_seconds(api: Api) -> None:
    hook = await served(api)
    await api.create(V1, v1_thing())
    hook.seconds = 31
    began = api.env.monotonic()
    response = await api.get(V2 + "/a")
    assert (response.status, response.message) == (
        500,
        FAILED + f'failed: Post "{CALLED}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
    )
    assert api.env.monotonic() - began == pytest.approx(30)


async def test_slow_webhook_does_not_block_other_requests(api: Api) -> None:
    hook = await served(api)
    await api.create(V1, v1_thing())
    hook.seconds = 20
    slow = asyncio.ensure_future(api.get(V2 + "/a"))
    await asyncio.sleep(0)
    began = api.env.monotonic()
    assert (await api.get(V1 + "/a")).status == 200
    assert (await api.post(V1, v1_thing("b"))).status == 201
    assert (await api.get("/api/v1/namespaces")).status == 200
    assert api.env.monotonic() == began
    assert (await slow).status == 200


async def test_concurrent_identical_conversions_share_a_call(api: Api) -> None:
    hook = await served(api)
    await api.create(V1, v1_thing())
    hook.seconds = 5
    lists = [asyncio.ensure_future(api.get(V2)) for _ in range(3)]
    await asyncio.sleep(1)
    lists[0].cancel()
    await asyncio.sleep(0)
    answers = await asyncio.gather(*lists, return_exceptions=True)
    assert [answer.status for answer in answers[1:] if isinstance(answer, Answer)] == [200, 200]
    # The cancelled request made the first call; the request that waited for it makes another one.
    assert hook.calls == [(["a"], "v2"), (["a"], "v2")]


async def test_v1beta1_conversion_reviews(api: Api) -> None:
    """Kind and uid of v1beta1 responses were never checked."""
    hook = await served(
        api, lambda request: {**good(request), "uid": "other"}, conversionReviewVersions=["v1beta1", "v1"]
    )
    await api.create(V1, v1_thing())
    assert spec_of(await api.get(V2 + "/a"))["host"] == "h"
    assert hook.requests


async def test_service_reference_is_resolved(api: Api) -> None:
    service = {"namespace": "default", "name": "s", "path": "/there", "port": 8443}
    hook = await served(api, clientConfig={"service": service})
    await api.create(V1, v1_thing())
    url = "https://s.default.svc:8443/there?timeout=30s"
    assert (await api.get(V2 + "/a")).message == FAILED + f'failed: Post "{url}": service "s" not found'
    await api.create(
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "s"}, "spec": {"type": "ExternalName", "externalName": "there.test"}},
    )
    assert (await api.get(V2 + "/a")).status == 200
    (target,) = hook.targets
    assert (target.url, target.host, target.port, target.server_name) == (url, "there.test", 8443, "s.default.svc")


async def test_simulated_pods_are_not_called(api: Api) -> None:
    """No process listens at their addresses."""
    hook = await served(api, clientConfig={"service": {"namespace": "default", "name": "s", "port": 8443}})
    status = {"nodeInfo": {"containerRuntimeVersion": SIMULATED_RUNTIME_VERSION}}
    await api.create("/api/v1/nodes", {"metadata": {"name": "node-1"}, "status": status})
    await api.create(
        "/api/v1/namespaces/default/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 8443}]}}
    )
    target = {"kind": "Pod", "namespace": "default", "name": "op-1"}
    endpoint_slice = {
        "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.128.0.1"], "nodeName": "node-1", "targetRef": target}],
        "ports": [{"port": 9443}],
    }
    await api.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", endpoint_slice)
    await api.create(V1, v1_thing())
    reason = 'pod "op-1" runs on the simulated node "node-1", where no process is behind a container'
    message = (await api.get(V2 + "/a")).message
    assert message.startswith(FAILED + f'failed: Post "https://s.default.svc:8443/?timeout=30s": {reason}: ')
    assert hook.targets == []
