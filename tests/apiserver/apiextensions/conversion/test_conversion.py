"""Custom resources with a conversion webhook: every verb in each version.

After apiextensions-apiserver's ``test/integration/conversion/conversion_test.go`` (v1.36).
"""

import json

from tests.apiserver.api import JSON_PATCH, Api, Object
from tests.apiserver.apiextensions.conversion.things import (
    CALLED,
    DEFINITION,
    FAILED,
    V1,
    V2,
    Hook,
    convert,
    definition,
    good,
    served,
    spec_of,
    store_in,
    stored,
    v1_thing,
    v2_thing,
)
from tests.custom_resources import DEFINITIONS

TABLE = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


async def test_objects_are_stored_in_the_storage_version(api: Api) -> None:
    hook = await served(api)
    created = await api.post(V2, v2_thing())
    assert (created.status, created.body["apiVersion"]) == (201, "example.com/v2")
    # Defaults of the version of the request are stored if the storage version has the field; those of the storage
    # version are filled in when it is read.
    assert spec_of(created) == {"host": "h", "port": "1", "mode": "one"}
    assert stored(api)["apiVersion"] == "example.com/v1"
    assert stored(api)["spec"] == {"hostPort": "h:1"}
    assert hook.calls == [(["a"], "v1"), (["a"], "v2")]


async def test_read_in_the_storage_version_calls_no_webhook(api: Api) -> None:
    hook = await served(api)
    await api.create(V1, v1_thing())
    assert spec_of(await api.get(V1 + "/a")) == {"hostPort": "h:1", "mode": "one"}
    assert len((await api.get(V1)).body["items"]) == 1
    assert (await api.patch(V1 + "/a", {"spec": {"replicas": 2}})).status == 200
    assert (await api.delete(V1 + "/a")).status == 200
    assert hook.calls == []


async def test_get_calls_the_webhook_each_time(api: Api) -> None:
    """One with a resource version is answered by what the watch cache has."""
    hook = await served(api)
    await api.create(V1, v1_thing())
    for _ in range(2):
        response = await api.get(V2 + "/a")
    assert (response.body["apiVersion"], spec_of(response)) == (
        "example.com/v2",
        {"host": "h", "port": "1", "mode": "one"},
    )
    assert len(hook.calls) == 2
    for _ in range(2):
        assert (await api.get(V2 + "/a?resourceVersion=0")).body == response.body
    assert len(hook.calls) <= 1


async def test_conversion_request(api: Api) -> None:
    hook = await served(api)
    created = await api.create(V1, v1_thing())
    await api.get(V2 + "/a")
    (target,), (request,) = hook.targets, hook.requests
    assert target.url == CALLED
    assert len(request["uid"]) == 36
    assert request["desiredAPIVersion"] == "example.com/v2"
    (sent,) = request["objects"]
    assert sent["apiVersion"] == "example.com/v1"
    assert sent["spec"] == {"hostPort": "h:1", "mode": "one"}
    revision = created["metadata"].pop("resourceVersion")
    assert sent["metadata"] == created["metadata"], "it is stored without a resource version"
    assert (await api.get(V2 + "/a")).meta["resourceVersion"] == revision


async def test_list_is_converted_in_one_call(api: Api) -> None:
    hook = await served(api)
    for name in ("a", "b"):
        await api.create(V1, v1_thing(name))
    await store_in(api, "v2")
    await api.create(V2, v2_thing("c"))
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


async def test_long_list_is_converted_in_several_calls(api: Api) -> None:
    hook = await served(api)
    for number in range(3):
        await api.create(V1, v1_thing(f"t{number}", metadata={"annotations": {"big": "x" * 200_000}}))
        await api.create(V1, v1_thing(f"u{number}", metadata={"annotations": {"big": "x" * 250_000}}))
    assert len((await api.get(V2)).body["items"]) == 6
    assert [len(names) for names, _version in hook.calls] == [4, 2]


async def test_list_selects_by_fields_of_the_requested_version(api: Api) -> None:
    def labelled(request: Object) -> Object:
        response = good(request)
        for obj in response["convertedObjects"]:
            obj["metadata"].setdefault("labels", {})["from"] = "webhook"
        return response

    hook = await served(api, labelled)
    for name, host_port in (("a", "x:1"), ("b", "y:1"), ("c", "x:2")):
        await api.create(V1, v1_thing(name, host_port))

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
    assert hook.requests


async def test_tables_have_the_columns_of_the_requested_version(api: Api) -> None:
    await served(api)
    await api.create(V1, v1_thing())
    for path, names, cells in (
        (V1, ["Name", "HostPort"], ["a", "h:1"]),
        (V2, ["Name", "Host", "Port"], ["a", "h", "1"]),
    ):
        for target in (path, path + "/a"):
            table = (await api.request("GET", target, **TABLE)).body
            assert [column["name"] for column in table["columnDefinitions"]] == names
            assert [row["cells"] for row in table["rows"]] == [cells]


async def test_updates_in_each_version(api: Api) -> None:
    hook = await served(api)
    await api.create(V1, v1_thing())
    updated = (await api.get(V2 + "/a")).body
    updated["spec"] |= {"host": "other", "late": "x"}
    put = await api.put(V2 + "/a", updated)
    assert put.status == 200, put.text
    assert spec_of(put) == {"host": "other", "port": "1", "mode": "one"}  # v1 does not have the field
    assert stored(api)["spec"] == {"hostPort": "other:1", "mode": "one"}
    assert put.meta["generation"] == 2
    merged = await api.patch(V2 + "/a", {"spec": {"port": "2"}})
    assert stored(api)["spec"]["hostPort"] == "other:2", merged.text
    operations = [{"op": "replace", "path": "/spec/host", "value": "third"}]
    patched = await api.patch(V2 + "/a", operations, JSON_PATCH)
    assert spec_of(patched)["host"] == "third"
    assert spec_of(await api.get(V1 + "/a"))["hostPort"] == "third:2"
    assert (await api.put(V2 + "/a", updated)).status == 409
    assert hook.requests


async def test_no_op_update_is_not_written(api: Api) -> None:
    Hook(api)
    crd = definition()
    # A default for a field that the storage version does not have is a change each time, also upstream.
    del crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["late"]
    await api.create(DEFINITIONS, crd)
    await api.create(V1, v1_thing(mode="one"))
    unchanged = await api.get(V2 + "/a")
    for again in (await api.put(V2 + "/a", unchanged.body), await api.patch(V2 + "/a", {})):
        assert again.meta["resourceVersion"] == unchanged.meta["resourceVersion"]


async def test_status_and_scale_in_each_version(api: Api) -> None:
    await served(api)
    await api.create(V1, v1_thing(replicas=3))
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
    created = await api.create(V2, thing)
    assert stored(api, created["metadata"]["name"])["spec"] == {"hostPort": "h:1"}
    name = created["metadata"]["name"]
    dry = await api.patch(f"{V2}/{name}?dryRun=All", {"spec": {"port": "7"}})
    assert spec_of(dry)["port"] == "7"
    assert stored(api, name)["spec"] == {"hostPort": "h:1"}


async def test_webhook_may_change_only_labels_and_annotations(api: Api) -> None:
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
    created = await api.create(V1, v1_thing())
    assert "labels" not in created["metadata"]
    converted = await api.get(V2 + "/a")
    assert converted.meta == {
        **created["metadata"],
        "labels": {"to": "example.com.v2"},
        "annotations": {"to": "example.com/v2"},
    }
    await api.create(V2, v2_thing("b"))
    kept = stored(api, "b")["metadata"]
    assert (kept["labels"], kept["annotations"]) == ({"to": "example.com.v1"}, {"to": "example.com/v1"})
    assert {"finalizers", "ownerReferences", "garbage"}.isdisjoint(kept)
    assert [entry["apiVersion"] for entry in kept["managedFields"]] == ["example.com/v2"]
    assert kept["generation"] == 1


async def test_stored_versions(api: Api) -> None:
    hook = await served(api)
    await api.create(V1, v1_thing())
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


async def test_admission_gets_the_requested_version(api: Api) -> None:
    hook = await served(api)
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["things"]}
    validation = {"expression": "object == null || object.spec.host != 'bad'", "message": "no such host"}
    await api.create(
        policies,
        {
            "metadata": {"name": "p"},
            "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]},
        },
    )
    await api.create(
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


async def test_storage_version_is_defaulted_without_a_webhook(api: Api) -> None:
    """Fields unknown to the storage version are not stored (``crdConversionRESTOptionsGetter``, v1.36)."""
    crd = definition()
    crd["spec"]["conversion"] = {"strategy": "None"}
    await api.create(DEFINITIONS, crd)
    created = await api.create(V2, v2_thing(mode="x"))
    assert created["spec"] == {"mode": "x"}
    assert stored(api)["spec"] == {"mode": "x"}
    await api.create(V1, v1_thing("b"))
    assert spec_of(await api.get(V2 + "/b")) == {"mode": "one"}


def test_test_webhook_converts_in_both_directions() -> None:
    thing = json.loads(json.dumps(v1_thing(replicas=2)))
    assert convert(convert(thing, "example.com/v2"), "example.com/v1") == thing


async def test_converted_objects_are_pruned_and_normalized(api: Api) -> None:
    """Unknown fields, and nulls that the schema does not allow, are removed; whole numbers have no fraction."""

    def odd(request: Object) -> Object:
        response = good(request)
        for obj in response["convertedObjects"]:
            obj["spec"] |= {"garbage": 1, "count": 3.0, "late": None}
            obj["other"] = {}
        return response

    await served(api, odd)
    await api.create(V1, v1_thing())
    converted = await api.get(V2 + "/a")
    assert spec_of(converted) == {"host": "h", "port": "1", "mode": "one", "count": 3, "late": None}
    assert '"count":3,' in converted.text
    assert "other" not in converted.body
    created = await api.post(V2, v2_thing("b"))
    assert "garbage" not in created.text
