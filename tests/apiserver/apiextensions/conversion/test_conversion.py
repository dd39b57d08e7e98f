"""Custom resources of versions that a webhook converts: every verb in each version.

After apiextensions-apiserver's ``test/integration/conversion/conversion_test.go`` (v1.36).
"""

import asyncio
import json
from typing import Any

import pytest
from tests.apiserver.api import JSON_PATCH, MERGE, Answer, Api, Object
from tests.apiserver.apiextensions.conversion.things import (
    CALLED,
    DEFINITION,
    V1,
    V2,
    Hook,
    convert,
    definition,
    good,
    served,
    store_in,
    stored,
    v1_thing,
    v2_thing,
)
from tests.custom_resources import DEFINITIONS

APPLY = "application/apply-patch+yaml"
TABLE = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
FAILED = "conversion webhook for example.com/v1, Kind=Thing "


def spec_of(answer: Answer) -> Object:
    spec: Object = answer.body["spec"]
    return spec


async def test_what_is_written_in_one_version_is_stored_in_the_storage_version(api: Api) -> None:
    hook = await served(api)
    made = await api.post(V2, v2_thing())
    assert (made.status, made.body["apiVersion"]) == (201, "example.com/v2")
    # Defaults of the version of the request are stored where the storage version knows the field; those of the storage
    # version are filled in when it is read.
    assert spec_of(made) == {"host": "h", "port": "1", "mode": "one"}
    assert stored(api)["apiVersion"] == "example.com/v1"
    assert stored(api)["spec"] == {"hostPort": "h:1"}
    assert hook.calls == [(["a"], "v1"), (["a"], "v2")]


async def test_a_read_in_the_stored_version_calls_no_webhook(api: Api) -> None:
    hook = await served(api)
    await api.made(V1, v1_thing())
    assert spec_of(await api.get(V1 + "/a")) == {"hostPort": "h:1", "mode": "one"}
    assert len((await api.get(V1)).body["items"]) == 1
    assert (await api.patch(V1 + "/a", {"spec": {"replicas": 2}})).status == 200
    assert (await api.delete(V1 + "/a")).status == 200
    assert hook.calls == []


async def test_a_get_calls_the_webhook_each_time(api: Api) -> None:
    """One with a resource version is answered by what the watch cache has."""
    hook = await served(api)
    await api.made(V1, v1_thing())
    for _ in range(2):
        got = await api.get(V2 + "/a")
    assert (got.body["apiVersion"], spec_of(got)) == ("example.com/v2", {"host": "h", "port": "1", "mode": "one"})
    assert len(hook.calls) == 2
    for _ in range(2):
        assert (await api.get(V2 + "/a?resourceVersion=0")).body == got.body
    assert len(hook.calls) <= 1


async def test_a_request_says_what_is_wanted(api: Api) -> None:
    hook = await served(api)
    made = await api.made(V1, v1_thing())
    await api.get(V2 + "/a")
    (target,), (request,) = hook.targets, hook.asked
    assert target.url == CALLED
    assert len(request["uid"]) == 36
    assert request["desiredAPIVersion"] == "example.com/v2"
    (sent,) = request["objects"]
    assert sent["apiVersion"] == "example.com/v1"
    assert sent["spec"] == {"hostPort": "h:1", "mode": "one"}
    assert sent["metadata"] == made["metadata"]


async def test_a_list_is_converted_in_one_call(api: Api) -> None:
    hook = await served(api)
    for name in ("a", "b"):
        await api.made(V1, v1_thing(name))
    await store_in(api, "v2")
    await api.made(V2, v2_thing("c"))
    assert stored(api, "c")["apiVersion"] == "example.com/v2"
    assert hook.calls == []
    listed = await api.get(V2)
    assert [(item["metadata"]["name"], item["apiVersion"], item["spec"]["host"]) for item in listed.body["items"]] == [
        ("a", "example.com/v2", "h"),
        ("b", "example.com/v2", "h"),
        ("c", "example.com/v2", "h"),
    ]
    assert listed.body["apiVersion"] == "example.com/v2"
    assert hook.calls == [(["a", "b"], "v2")]
    # As upstream's watch cache has them by now.
    assert (await api.get(V2)).body["items"] == listed.body["items"]
    assert hook.calls == []
    assert [item["spec"]["hostPort"] for item in (await api.get(V1)).body["items"]] == ["h:1", "h:1", "h:1"]
    assert hook.calls == [(["c"], "v1")]


async def test_a_list_of_many_is_converted_in_several_calls(api: Api) -> None:
    hook = await served(api)
    for number in range(3):
        await api.made(V1, v1_thing(f"t{number}", metadata={"annotations": {"big": "x" * 200_000}}))
        await api.made(V1, v1_thing(f"u{number}", metadata={"annotations": {"big": "x" * 250_000}}))
    assert len((await api.get(V2)).body["items"]) == 6
    assert [len(names) for names, _version in hook.calls] == [4, 2]


async def test_a_list_is_selected_by_what_the_version_has(api: Api) -> None:
    def labelled(request: Object) -> Object:
        response = good(request)
        for obj in response["convertedObjects"]:
            obj["metadata"].setdefault("labels", {})["from"] = "webhook"
        return response

    hook = await served(api, labelled)
    for name, host_port in (("a", "x:1"), ("b", "y:1"), ("c", "x:2")):
        await api.made(V1, v1_thing(name, host_port))

    async def names(query: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await api.get(V2 + query)).body["items"]]

    assert await names("?fieldSelector=spec.host%3Dx") == ["a", "c"]
    assert await names("?labelSelector=from%3Dwebhook") == ["a", "b", "c"]
    assert await names("?labelSelector=from%21%3Dwebhook") == []
    assert await names("?fieldSelector=metadata.name%3Db") == ["b"]
    page = await api.get(V2 + "?fieldSelector=spec.host%3Dx&limit=1")
    assert [item["metadata"]["name"] for item in page.body["items"]] == ["a"]
    token = page.body["metadata"]["continue"]
    assert await names(f"?fieldSelector=spec.host%3Dx&limit=1&continue={token}") == ["c"]
    assert hook.asked


async def test_tables_have_the_columns_of_the_version(api: Api) -> None:
    await served(api)
    await api.made(V1, v1_thing())
    for path, names, cells in (
        (V1, ["Name", "HostPort"], ["a", "h:1"]),
        (V2, ["Name", "Host", "Port"], ["a", "h", "1"]),
    ):
        for target in (path, path + "/a"):
            table = (await api.ask("GET", target, **TABLE)).body
            assert [column["name"] for column in table["columnDefinitions"]] == names
            assert [row["cells"] for row in table["rows"]] == [cells]


async def test_updates_in_each_version(api: Api) -> None:
    hook = await served(api)
    await api.made(V1, v1_thing())
    seen = (await api.get(V2 + "/a")).body
    seen["spec"] |= {"host": "other", "late": "x"}
    put = await api.put(V2 + "/a", seen)
    assert put.status == 200, put.text
    assert spec_of(put) == {"host": "other", "port": "1", "mode": "one"}  # v1 does not know the field
    assert stored(api)["spec"] == {"hostPort": "other:1", "mode": "one"}
    assert put.meta["generation"] == 2
    merged = await api.patch(V2 + "/a", {"spec": {"port": "2"}})
    assert stored(api)["spec"]["hostPort"] == "other:2", merged.text
    operations = [{"op": "replace", "path": "/spec/host", "value": "third"}]
    patched = await api.patch(V2 + "/a", operations, JSON_PATCH)
    assert spec_of(patched)["host"] == "third"
    assert spec_of(await api.get(V1 + "/a"))["hostPort"] == "third:2"
    assert (await api.put(V2 + "/a", seen)).status == 409
    assert hook.asked


async def test_a_write_that_changes_nothing_is_none(api: Api) -> None:
    Hook(api)
    given = definition()
    # A default of a version that the storage version does not know is a change each time, also upstream.
    del given["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["late"]
    await api.made(DEFINITIONS, given)
    await api.made(V1, v1_thing(mode="one"))
    seen = await api.get(V2 + "/a")
    for again in (await api.put(V2 + "/a", seen.body), await api.patch(V2 + "/a", {})):
        assert again.meta["resourceVersion"] == seen.meta["resourceVersion"]


async def test_status_and_scale_in_each_version(api: Api) -> None:
    await served(api)
    await api.made(V1, v1_thing(replicas=3))
    status = await api.patch(V2 + "/a/status", {"status": {"count": 2}, "spec": {"host": "ignored"}})
    assert (status.status, status.body["status"], spec_of(status)["host"]) == (200, {"count": 2}, "h")
    assert stored(api)["status"] == {"replicas": 2}
    assert (await api.get(V2 + "/a/status")).body["status"] == {"count": 2}
    for path in (V1, V2):
        scale = (await api.get(path + "/a/scale")).body
        assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2})
    scaled = await api.patch(V2 + "/a/scale", {"spec": {"replicas": 5}})
    assert scaled.body["spec"] == {"replicas": 5}
    assert stored(api)["spec"]["replicas"] == 5
    scale["spec"]["replicas"], scale["metadata"] = 6, {"name": "a", "namespace": "default"}
    assert (await api.put(V2 + "/a/scale", scale)).body["spec"] == {"replicas": 6}
    assert spec_of(await api.get(V2 + "/a"))["count"] == 6


async def test_dry_run_and_generated_names(api: Api) -> None:
    await served(api)
    dry = await api.post(V2 + "?dryRun=All", v2_thing())
    assert (dry.status, spec_of(dry)) == (201, {"host": "h", "port": "1", "mode": "one"})
    assert (await api.get(V1)).body["items"] == []
    thing = v2_thing()
    thing["metadata"] = {"generateName": "t-"}
    made = await api.made(V2, thing)
    assert stored(api, made["metadata"]["name"])["spec"] == {"hostPort": "h:1"}
    name = made["metadata"]["name"]
    dry = await api.patch(f"{V2}/{name}?dryRun=All", {"spec": {"port": "7"}})
    assert spec_of(dry)["port"] == "7"
    assert stored(api, name)["spec"] == {"hostPort": "h:1"}


async def test_labels_and_annotations_are_the_webhooks_and_nothing_else_of_metadata(api: Api) -> None:
    """``validateObjectMetaMutation``."""

    def mutating(request: Object) -> Object:
        response = good(request)
        for obj in response["convertedObjects"]:
            meta = obj["metadata"]
            meta["annotations"] = {**meta.get("annotations", {}), "to": request["desiredAPIVersion"]}
            meta["labels"] = {**meta.get("labels", {}), "to": request["desiredAPIVersion"].replace("/", ".")}
            meta |= {"generation": 42, "resourceVersion": "42", "finalizers": ["foo"], "garbage": "foo"}
            meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "1234"}]
            meta.pop("managedFields", None)
        return response

    await served(api, mutating)
    made = await api.made(V1, v1_thing())
    assert "labels" not in made["metadata"]
    got = await api.get(V2 + "/a")
    assert got.meta == {
        **made["metadata"],
        "labels": {"to": "example.com.v2"},
        "annotations": {"to": "example.com/v2"},
    }
    await api.made(V2, v2_thing("b"))
    kept = stored(api, "b")["metadata"]
    assert (kept["labels"], kept["annotations"]) == ({"to": "example.com.v1"}, {"to": "example.com/v1"})
    assert {"finalizers", "ownerReferences", "garbage"}.isdisjoint(kept)
    assert [entry["apiVersion"] for entry in kept["managedFields"]] == ["example.com/v2"]
    assert kept["generation"] == 1


async def test_storage_versions_are_those_that_objects_were_stored_in(api: Api) -> None:
    hook = await served(api)
    await api.made(V1, v1_thing())
    assert (await api.get(DEFINITION)).body["status"]["storedVersions"] == ["v1"]
    await store_in(api, "v2")
    assert (await api.get(DEFINITION)).body["status"]["storedVersions"] == ["v1", "v2"]
    assert stored(api)["apiVersion"] == "example.com/v1"
    assert spec_of(await api.get(V1 + "/a")) == {"hostPort": "h:1", "mode": "one"}
    assert hook.calls == []
    # What the storage version migrator does.
    before = stored(api)["metadata"]["resourceVersion"]
    migrated = await api.patch(V2 + "/a", {})
    assert stored(api)["apiVersion"] == "example.com/v2"
    assert stored(api)["spec"] == {"host": "h", "port": "1", "mode": "one", "late": "two"}
    assert migrated.meta["resourceVersion"] != before
    assert spec_of(await api.get(V1 + "/a")) == {"hostPort": "h:1", "mode": "one"}
    again = await api.patch(V2 + "/a", {})
    assert again.meta["resourceVersion"] == migrated.meta["resourceVersion"]


VERBS = [
    pytest.param("GET", "", None, MERGE, id="get"),
    pytest.param("PUT", "", "seen", MERGE, id="update"),
    pytest.param("PATCH", "", {"metadata": {"annotations": {"patch": "true"}}}, MERGE, id="patch"),
    pytest.param("PATCH", "?fieldManager=m&force=true", v2_thing(), APPLY, id="apply"),
    pytest.param("DELETE", "", None, MERGE, id="delete"),
    pytest.param("GET", "/status", None, MERGE, id="status get"),
    pytest.param("PUT", "/status", "seen", MERGE, id="status update"),
    pytest.param("PATCH", "/status", {"status": {"count": 1}}, MERGE, id="status patch"),
    pytest.param("GET", "/scale", None, MERGE, id="scale get"),
    pytest.param(
        "PUT",
        "/scale",
        {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 42}},
        MERGE,
        id="scale update",
    ),
    pytest.param("PATCH", "/scale", {"spec": {"replicas": 1}}, MERGE, id="scale patch"),
]


@pytest.mark.parametrize(("method", "path", "body", "content_type"), VERBS)
async def test_no_verb_goes_without_its_conversion(
    api: Api, method: str, path: str, body: Any, content_type: str
) -> None:
    """``expectConversionFailureMessage``."""

    def failing(request: Object) -> Object:
        result = {"status": "Failure", "message": "custom webhook conversion error"}
        return {"uid": request["uid"], "convertedObjects": [], "result": result}

    hook = await served(api)
    await api.made(V1, v1_thing(replicas=1))
    if body == "seen":
        body = (await api.get(V2 + "/a")).body
        body["spec"]["port"] = "9"
    hook.answer = failing
    before = stored(api)
    answer = await api.ask(method, f"{V2}/a{path}", body, "application/json" if method == "PUT" else content_type)
    failed = FAILED
    if method == "PUT" and path != "/scale":
        # What is there is known by now, as upstream's watch cache knows it: only what is to be stored is converted.
        failed = failed.replace("v1", "v2")
    assert (answer.status, answer.message) == (500, failed + "failed: custom webhook conversion error")
    assert "reason" not in answer.body
    assert stored(api) == before


async def test_collections_and_creates_do_not_go_without_their_conversion(api: Api) -> None:
    hook = await served(api)
    await api.made(V1, v1_thing())
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


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            lambda request: {**good(request), "convertedObjects": []}, "returned 0 objects, expected 1", id="nothing"
        ),
        pytest.param(
            lambda request: {**good(request), "uid": "x"},
            'failed: expected response.uid="{uid}", got "x"',
            id="another uid",
        ),
        pytest.param(
            lambda request: {**good(request), "result": {"status": "Failure", "message": "no way"}},
            "failed: no way",
            id="a failure",
        ),
        pytest.param(
            lambda _request: {"http": 404}, "failed: the server could not find the requested resource", id="404"
        ),
        pytest.param(
            lambda _request: {"http": 400}, "failed: the server rejected our request for an unknown reason", id="400"
        ),
        pytest.param(
            _converted(lambda obj: obj["metadata"].update(uid="42")),
            "returned invalid object: must have the same UID: {object} != 42",
            id="another object",
        ),
        pytest.param(
            _converted(lambda obj: obj.update(apiVersion="example.com/v1")),
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received "
            "example.com/v1)",
            id="not converted",
        ),
        pytest.param(
            _converted(lambda obj: obj.pop("apiVersion")),
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received )",
            id="no version",
        ),
        pytest.param(
            _converted(lambda obj: obj["metadata"].update(labels={"a b": "c"})),
            'returned invalid metadata: metadata.labels: Invalid value: "a b": name part must consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
            "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            id="a label that is none",
        ),
    ],
)  # fmt: skip
async def test_what_is_said_of_a_wrong_answer(api: Api, answer: Any, message: str) -> None:
    hook = await served(api, answer)
    made = await api.made(V1, v1_thing())
    got = await api.get(V2 + "/a")
    message = message.replace("{uid}", hook.asked[0]["uid"]).replace("{object}", made["metadata"]["uid"])
    assert (got.status, got.message) == (500, FAILED + message)


async def test_some_errors_do_not_name_the_webhook(api: Api) -> None:
    """``return nil, err`` (webhook_converter.go, v1.36)."""
    hook = await served(api, lambda request: {**good(request), "convertedObjects": [None]})
    await api.made(V1, v1_thing())
    assert (await api.get(V2 + "/a")).message == "unexpected end of JSON input"
    hook.answer = lambda request: {**good(request), "convertedObjects": [{"apiVersion": "example.com/v2"}]}
    missing = "Object 'Kind' is missing in '{\"apiVersion\":\"example.com/v2\"}'"
    assert (await api.get(V2 + "/a")).message == missing
    await api.made(V1, v1_thing("b"))
    hook.answer = lambda request: {**good(request), "convertedObjects": [*good(request)["convertedObjects"][:1], {}]}
    listed = await api.get(V2)
    assert listed.message == FAILED + "returned invalid converted object at index 1: Object 'Kind' is missing in '{}'"


async def test_a_webhook_has_thirty_seconds(api: Api) -> None:
    hook = await served(api)
    await api.made(V1, v1_thing())
    hook.seconds = 31
    began = api.env.monotonic()
    got = await api.get(V2 + "/a")
    assert (got.status, got.message) == (
        500,
        FAILED + f'failed: Post "{CALLED}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
    )
    assert api.env.monotonic() - began == pytest.approx(30)


async def test_others_are_served_while_a_webhook_is_slow(api: Api) -> None:
    hook = await served(api)
    await api.made(V1, v1_thing())
    hook.seconds = 20
    slow = asyncio.ensure_future(api.get(V2 + "/a"))
    await asyncio.sleep(0)
    began = api.env.monotonic()
    assert (await api.get(V1 + "/a")).status == 200
    assert (await api.post(V1, v1_thing("b"))).status == 201
    assert (await api.get("/api/v1/namespaces")).status == 200
    assert api.env.monotonic() == began
    assert (await slow).status == 200


async def test_those_who_want_the_same_share_a_call(api: Api) -> None:
    hook = await served(api)
    await api.made(V1, v1_thing())
    hook.seconds = 5
    lists = [asyncio.ensure_future(api.get(V2)) for _ in range(3)]
    await asyncio.sleep(1)
    lists[0].cancel()
    await asyncio.sleep(0)
    answers = await asyncio.gather(*lists, return_exceptions=True)
    assert [answer.status for answer in answers[1:] if isinstance(answer, Answer)] == [200, 200]
    # The one that was given up made the first call; who waited for it makes another.
    assert hook.calls == [(["a"], "v2"), (["a"], "v2")]


async def test_v1beta1_is_asked_in_its_own_version(api: Api) -> None:
    """Whose answers were never checked for kind and uid."""
    hook = await served(
        api, lambda request: {**good(request), "uid": "other"}, conversionReviewVersions=["v1beta1", "v1"]
    )
    await api.made(V1, v1_thing())
    assert spec_of(await api.get(V2 + "/a"))["host"] == "h"
    assert hook.asked


async def test_a_service_is_called_where_it_is(api: Api) -> None:
    service = {"namespace": "default", "name": "s", "path": "/there", "port": 8443}
    hook = await served(api, clientConfig={"service": service})
    await api.made(V1, v1_thing())
    url = "https://s.default.svc:8443/there?timeout=30s"
    assert (await api.get(V2 + "/a")).message == FAILED + f'failed: Post "{url}": service "s" not found'
    await api.made(
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "s"}, "spec": {"type": "ExternalName", "externalName": "there.test"}},
    )
    assert (await api.get(V2 + "/a")).status == 200
    (target,) = hook.targets
    assert (target.url, target.host, target.port, target.server_name) == (url, "there.test", 8443, "s.default.svc")


async def test_a_definition_that_changes_is_converted_anew(api: Api) -> None:
    hook = await served(api)
    await api.made(V1, v1_thing())
    await api.get(V2)
    found = (await api.get(DEFINITION)).body
    found["spec"]["conversion"] = {"strategy": "None"}
    assert (await api.put(DEFINITION, found)).status == 200
    hook.asked.clear()
    (item,) = (await api.get(V2)).body["items"]
    assert (item["apiVersion"], item["spec"]) == ("example.com/v2", {"mode": "one"})
    assert hook.calls == []


async def test_a_definition_goes_with_objects_of_any_stored_version(api: Api) -> None:
    hook = await served(api)
    await api.made(V1, v1_thing())
    assert (await api.delete(DEFINITION)).status == 200
    assert hook.calls == []
    assert (await api.get(DEFINITION)).status == 404
    await served(api)
    await api.made(V1, v1_thing())
    await store_in(api, "v2")
    work = asyncio.ensure_future(api.server.run())
    hook = Hook(api)
    hook.failure = "Post: no"
    assert (await api.delete(DEFINITION)).status == 200
    await asyncio.sleep(1)
    conditions = {one["type"]: one for one in (await api.get(DEFINITION)).body["status"]["conditions"]}
    assert (conditions["Terminating"]["reason"], conditions["Terminating"]["message"]) == (
        "InstanceDeletionFailed",
        f"could not list instances: {FAILED}failed: Post: no",
    )
    hook.failure = ""
    await asyncio.sleep(30)
    assert (await api.get(DEFINITION)).status == 404
    assert api.store.staged("example.com/things/default/a") is None
    work.cancel()


async def test_metrics_count_calls(started_api: Api) -> None:
    api = started_api
    hook = await served(api)
    await api.made(V1, v1_thing())
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


# Watches


async def test_a_watch_shows_each_event_in_its_version(api: Api) -> None:
    hook = await served(api)
    await api.made(V1, v1_thing())
    events = await api.watch(V2)
    others = await api.watch(V2)
    assert hook.calls == [(["a"], "v2")]
    await api.patch(V1 + "/a", {"spec": {"hostPort": "x:2"}})
    await api.made(V2, v2_thing("b"))
    await api.delete(V1 + "/a")
    for stream in (events, others):
        seen = [await stream.next() for _ in range(4)]
        assert [(type_, obj["metadata"]["name"], obj["apiVersion"], obj["spec"]["host"]) for type_, obj in seen] == [
            ("ADDED", "a", "example.com/v2", "h"),
            ("MODIFIED", "a", "example.com/v2", "x"),
            ("ADDED", "b", "example.com/v2", "h"),
            ("DELETED", "a", "example.com/v2", "x"),
        ]
        versions = [int(obj["metadata"]["resourceVersion"]) for _type, obj in seen]
        assert versions == sorted(set(versions))
    await events.stream.close()
    await others.stream.close()
    # The watchers share what is converted, a create its answer, and a deletion what was there before.
    assert [names for names, version in hook.calls if version == "v2"] == [["b"], ["a"]]


async def test_a_watch_selects_by_what_the_version_has(api: Api) -> None:
    await served(api)
    await api.made(V1, v1_thing("a", "x:1"))
    await api.made(V1, v1_thing("b", "y:1"))
    events = await api.watch(V2 + "?fieldSelector=spec.host%3Dx")
    await api.patch(V1 + "/b", {"spec": {"hostPort": "x:2"}})
    await api.patch(V1 + "/a", {"spec": {"hostPort": "y:2"}})
    await api.delete(V1 + "/b")
    seen = [await events.next() for _ in range(4)]
    assert [(type_, obj["metadata"]["name"], obj["spec"]["port"]) for type_, obj in seen] == [
        ("ADDED", "a", "1"),
        ("ADDED", "b", "2"),
        ("DELETED", "a", "1"),
        ("DELETED", "b", "2"),
    ]
    await events.stream.close()


async def test_a_watch_ends_where_a_change_cannot_be_converted(api: Api) -> None:
    """Its client goes on from the last event, and is asked to come again until that is possible."""
    hook = await served(api)
    made = await api.made(V1, v1_thing())
    version = made["metadata"]["resourceVersion"]
    events = await api.watch(f"{V2}?resourceVersion={version}")
    await api.patch(V1 + "/a", {"spec": {"hostPort": "x:2"}})
    assert (await events.next())[1]["spec"]["host"] == "x"
    hook.failure = "Post: no"
    changed = await api.patch(V1 + "/a", {"spec": {"hostPort": "z:3"}})
    assert await events.rest() == []
    last = int(changed.meta["resourceVersion"]) - 1
    again = await api.get(f"{V2}?watch=true&resourceVersion={last}")
    assert (again.status, again.headers["retry-after"]) == (429, "1")
    assert again.message == f"storage is (re)initializing: {FAILED}failed: Post: no"
    hook.failure = ""
    events = await api.watch(f"{V2}?resourceVersion={last}")
    type_, obj = await events.next()
    assert (type_, obj["spec"]["host"]) == ("MODIFIED", "z")
    await events.stream.close()


async def test_a_watch_that_waits_for_a_webhook_ends_when_it_is_closed(api: Api) -> None:
    hook = await served(api)
    events = await api.watch(V2)
    hook.seconds = 25
    await api.made(V1, v1_thing())
    waiting = asyncio.ensure_future(events.rest())
    await asyncio.sleep(1)
    began = api.env.monotonic()
    await events.stream.close()
    assert await waiting == []
    assert api.env.monotonic() == began


async def test_bookmarks_of_a_watch_list(api: Api) -> None:
    await served(api)
    await api.made(V1, v1_thing())
    query = "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = await api.watch(V2 + query)
    first, second = await events.next(), await events.next()
    assert (first[0], first[1]["spec"]["host"]) == ("ADDED", "h")
    assert (second[0], second[1]["apiVersion"]) == ("BOOKMARK", "example.com/v2")
    assert second[1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await events.stream.close()


# Managed fields


def managers(answer: Answer) -> list[tuple[str, str, str]]:
    return [(one["manager"], one["operation"], one["apiVersion"]) for one in answer.meta["managedFields"]]


def fields(answer: Answer, manager: str) -> Any:
    (found,) = [one["fieldsV1"] for one in answer.meta["managedFields"] if one["manager"] == manager]
    return found.get("f:spec")


async def test_managers_keep_the_version_that_they_wrote_in(api: Api) -> None:
    await served(api)
    first = await api.patch(V1 + "/a?fieldManager=one", v1_thing(mode="x"), APPLY)
    assert first.status == 201, first.text
    conflict = await api.patch(V2 + "/a?fieldManager=two", v2_thing(host="other"), APPLY)
    assert (conflict.status, conflict.message) == (
        409,
        'Apply failed with 1 conflict: conflict with "one": .spec.hostPort',
    )
    second = await api.patch(V2 + "/a?fieldManager=two&force=true", v2_thing(host="other"), APPLY)
    assert second.status == 200, second.text
    assert managers(second) == [("one", "Apply", "example.com/v1"), ("two", "Apply", "example.com/v2")]
    assert fields(second, "one") == {"f:mode": {}}
    assert fields(second, "two") == {"f:host": {}, "f:port": {}}
    assert stored(api)["spec"] == {"hostPort": "other:1", "mode": "x"}
    assert stored(api)["metadata"]["managedFields"] == second.meta["managedFields"]
    # The fields that the first applied the last time and not now go, in its own version.
    third = await api.patch(V1 + "/a?fieldManager=one", {**v1_thing(), "spec": {}}, APPLY)
    assert spec_of(third) == {"hostPort": "other:1", "mode": "one"}
    # An update in one version takes what it changes from those who own it in others.
    fourth = await api.ask("PATCH", V1 + "/a?fieldManager=three", {"spec": {"hostPort": "z:9"}}, MERGE)
    assert managers(fourth) == [("one", "Apply", "example.com/v1"), ("three", "Update", "example.com/v1")]
    assert fields(fourth, "one") == {}
    assert fields(fourth, "three") == {"f:hostPort": {}}


async def test_what_was_applied_in_another_version_is_pruned_there(api: Api) -> None:
    await served(api)
    assert (await api.patch(V2 + "/a?fieldManager=m", v2_thing(count=3), APPLY)).status == 201
    applied = await api.patch(V2 + "/a?fieldManager=m", v2_thing(), APPLY)
    assert spec_of(applied) == {"host": "h", "port": "1", "mode": "one"}
    moved = await api.patch(V1 + "/a?fieldManager=m", {**v1_thing(), "spec": {"replicas": 4}}, APPLY)
    assert moved.status == 200, moved.text
    assert spec_of(moved) == {"replicas": 4, "mode": "one"}
    assert managers(moved) == [("m", "Apply", "example.com/v1")]


async def test_managed_fields_in_versions_that_cannot_be_had(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """An update goes on without managed fields, as upstream's ``UpdateNoErrors``, and says so; an apply fails."""
    hook = await served(api)
    await api.made(V2 + "?fieldManager=two", v2_thing())
    hook.failure = "Post: no"
    applied = await api.patch(V1 + "/a?fieldManager=one", v1_thing(host_port="n:1"), APPLY)
    assert (applied.status, applied.message) == (
        500,
        f"failed to convert old object: {FAILED}failed: Post: no",
    )
    rejected = await api.patch(V1 + "/a?fieldManager=one", {"spec": {"hostPort": 1}})
    assert rejected.status == 422
    assert not caplog.records, "nothing was stored, so nothing is lost"
    updated = await api.patch(V1 + "/a?fieldManager=one", {"spec": {"hostPort": "n:1"}})
    assert (updated.status, "managedFields" in updated.meta) == (200, False)
    assert [each.getMessage().partition(" kind=")[0] for each in caplog.records] == [
        "Managed fields of an object are lost"
    ]


# Admission


async def test_admission_sees_the_version_that_it_asks_for(api: Api) -> None:
    hook = await served(api)
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["things"]}
    validation = {"expression": "object == null || object.spec.host != 'bad'", "message": "no such host"}
    await api.made(
        policies,
        {
            "metadata": {"name": "p"},
            "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]},
        },
    )
    await api.made(
        policies.removesuffix("policies") + "policybindings",
        {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}},
    )
    assert (await api.post(V1, v1_thing())).status == 201
    denied = await api.post(V1, v1_thing("b", "bad:1"))
    assert (denied.status, denied.message) == (
        422,
        "things.example.com \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no such "
        "host",
    )
    hook.failure = "Post: no"
    failed = await api.post(V1, v1_thing("c"))
    assert failed.message == (
        "things.example.com \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed "
        f"to configure binding: failed to convert object version: {FAILED}failed: Post: no"
    )


# Without a webhook


async def test_without_a_webhook_only_the_stored_version_is_defaulted(api: Api) -> None:
    """What the storage version does not know is not stored (``crdConversionRESTOptionsGetter``, v1.36)."""
    given = definition()
    given["spec"]["conversion"] = {"strategy": "None"}
    await api.made(DEFINITIONS, given)
    made = await api.made(V2, v2_thing(mode="x"))
    assert made["spec"] == {"mode": "x"}
    assert stored(api)["spec"] == {"mode": "x"}
    await api.made(V1, v1_thing("b"))
    assert spec_of(await api.get(V2 + "/b")) == {"mode": "one"}


def test_the_webhook_of_these_tests_converts_both_ways() -> None:
    thing = json.loads(json.dumps(v1_thing(replicas=2)))
    assert convert(convert(thing, "example.com/v2"), "example.com/v1") == thing


async def test_what_is_converted_is_pruned_and_written_as_go_writes_it(api: Api) -> None:
    """What the schema does not know and nulls that it does not allow go; whole numbers have no fraction."""

    def odd(request: Object) -> Object:
        response = good(request)
        for obj in response["convertedObjects"]:
            obj["spec"] |= {"garbage": 1, "count": 3.0, "late": None}
            obj["other"] = {}
        return response

    await served(api, odd)
    await api.made(V1, v1_thing())
    got = await api.get(V2 + "/a")
    assert spec_of(got) == {"host": "h", "port": "1", "mode": "one", "count": 3, "late": None}
    assert '"count":3,' in got.text
    assert "other" not in got.body
    made = await api.post(V2, v2_thing("b"))
    assert "garbage" not in made.text
