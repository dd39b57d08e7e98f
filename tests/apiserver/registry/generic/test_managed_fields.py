"""managedFields as clients see them after creates, updates and patches."""

import asyncio
import json
from typing import Any

from tests.apiserver.api import CONFIG_MAPS, JSON_PATCH, LEASES, MERGE, PODS, REPLICA_SETS, STRATEGIC, Answer, Api
from tests.tables import cases

from pilothouse.apiserver.registry.generic.managed_fields import split_managed_fields

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def owners(answer: Answer) -> dict[str, Any]:
    """The owned fields by manager, operation and subresource."""
    return {
        "/".join(filter(None, (entry["manager"], entry["operation"], entry.get("subresource")))): entry["fieldsV1"]
        for entry in answer.meta.get("managedFields") or ()
    }


POD = {
    "metadata": {"name": "p", "labels": {"app": "x"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "nginx",
                "ports": [{"containerPort": 8080}, {"containerPort": 443, "name": "tls"}],
                "env": [{"name": "A", "value": "1"}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ]
    },
}


async def test_creator_owns_sent_and_defaulted_fields(api: Api) -> None:
    answer = await api.post(PODS, POD)
    (entry,) = answer.meta["managedFields"]
    assert {name: value for name, value in entry.items() if name != "fieldsV1"} == {
        "manager": "test",
        "operation": "Update",
        "apiVersion": "v1",
        "time": answer.meta["creationTimestamp"],
        "fieldsType": "FieldsV1",
    }
    port = 'k:{"containerPort":%d,"protocol":"TCP"}'
    assert entry["fieldsV1"] == {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"main"}': {
                    ".": {},
                    "f:env": {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
                    "f:image": {},
                    "f:imagePullPolicy": {},
                    "f:name": {},
                    "f:ports": {
                        ".": {},
                        port % 443: {".": {}, "f:containerPort": {}, "f:name": {}, "f:protocol": {}},
                        port % 8080: {".": {}, "f:containerPort": {}, "f:protocol": {}},
                    },
                    "f:resources": {".": {}, "f:requests": {".": {}, "f:cpu": {}}},
                    "f:terminationMessagePath": {},
                    "f:terminationMessagePolicy": {},
                }
            },
            "f:dnsPolicy": {},
            "f:enableServiceLinks": {},
            "f:restartPolicy": {},
            "f:schedulerName": {},
            "f:securityContext": {},
            "f:terminationGracePeriodSeconds": {},
        },
    }
    ports = entry["fieldsV1"]["f:spec"]["f:containers"]['k:{"name":"main"}']["f:ports"]
    assert list(ports) == [".", port % 443, port % 8080], "numbers are sorted as numbers"


async def test_update_takes_ownership_of_changed_fields_only(api: Api) -> None:
    await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "1", "c": "1"}})
    patch = {"data": {"a": "2", "b": None, "d": "1"}}
    assert owners(await api.request("PATCH", CONFIG_MAPS + "/c?fieldManager=other", patch, MERGE)) == {
        "other/Update": {"f:data": {"f:a": {}, "f:d": {}}},
        "test/Update": {"f:data": {".": {}, "f:c": {}}},
    }


async def test_no_op_write_writes_nothing(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    patched = await api.request("PATCH", CONFIG_MAPS + "/c?fieldManager=other", {"data": {"a": "1"}}, MERGE)
    assert patched.body == created.body


async def test_duplicate_owner_references_are_removed_before_tracking(api: Api) -> None:
    """Except for patches: their managed fields are computed before duplicates are removed, after admission."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"}
    created = await api.post(CONFIG_MAPS, {"metadata": {"name": "c", "ownerReferences": [owner]}})
    created.body["metadata"]["ownerReferences"] *= 2
    updated = await api.put(CONFIG_MAPS + "/c?fieldManager=other", created.body)
    patch = [{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner}]
    put, patched = [updated, await api.request("PATCH", CONFIG_MAPS + "/c?fieldManager=third", patch, JSON_PATCH)]
    assert list(owners(put)) == ["test/Update"]
    assert "contains duplicate entries; API server" in put.headers["warning"]
    assert "third/Update" in owners(patched)
    assert "contains duplicate entries after mutating admission happens; API server" in patched.headers["warning"]


async def test_managed_fields_time_is_updated_with_changes(api: Api) -> None:
    await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "1"}})
    times = []
    for value in ("2", "3"):
        await asyncio.sleep(10)
        answer = await api.request("PATCH", CONFIG_MAPS + "/c?fieldManager=other", {"data": {"a": value}}, MERGE)
        times += [entry["time"][-3:-1] for entry in answer.meta["managedFields"]]
    assert times == ["00", "10", "00", "20"]


async def test_status_and_spec_are_tracked_separately(api: Api) -> None:
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": labels, "template": template}
    created = await api.post(REPLICA_SETS, {"metadata": {"name": "r"}, "spec": spec})
    obj = created.body
    obj["spec"]["replicas"] = 7  # reset, and so not owned
    obj["status"] = {"replicas": 3, "observedGeneration": 1}
    owned = owners(await api.request("PUT", REPLICA_SETS + "/r/status?fieldManager=kcm", obj))
    assert owned["kcm/Update/status"] == {"f:status": {"f:observedGeneration": {}, "f:replicas": {}}}
    assert "f:status" not in owned["test/Update"]
    assert owned["test/Update"]["f:spec"]["f:replicas"] == {}


@cases("empty", {"no entries": [], "one empty entry": [{}]})
async def test_empty_managed_fields_resets_ownership(api: Api, empty: Any) -> None:
    created = await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    obj = created.body
    obj["metadata"]["managedFields"] = empty
    reset = await api.request("PUT", CONFIG_MAPS + "/c", obj)
    patched = await api.request("PATCH", CONFIG_MAPS + "/c", {"data": {"a": "2"}}, MERGE)
    assert "managedFields" not in reset.meta
    assert "managedFields" not in patched.meta, "managers are not tracked until an apply"


async def test_client_may_change_managed_fields_of_others(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    patch = [{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "somebody"}]
    assert created.meta["managedFields"]
    assert owners(await api.request("PATCH", CONFIG_MAPS + "/c", patch, "application/json-patch+json")) == {
        "somebody/Update": {"f:data": {".": {}, "f:a": {}}}
    }


@cases(
    "entries",
    {
        "unknown operation": [{"manager": "x", "operation": "Own", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
        "missing apiVersion": [{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1"}],
        "missing fieldsType": [{"manager": "x", "operation": "Update", "apiVersion": "v1"}],
        "invalid path element": [
            {
                "manager": "x",
                "operation": "Update",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"nonsense": {}},
            }
        ],
    },
)
async def test_undecodable_managed_fields_are_ignored(api: Api, entries: Any) -> None:
    created = await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    obj = json.loads(created.text)
    obj["metadata"]["managedFields"] = entries
    answer = await api.request("PUT", CONFIG_MAPS + "/c", obj)
    assert answer.body == created.body


async def test_old_update_managers_are_merged_into_ancient_changes(api: Api) -> None:
    answer = await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    for number in range(13):
        await asyncio.sleep(1)
        patch = {"data": {f"k{number}": "1"}}
        answer = await api.request("PATCH", f"{CONFIG_MAPS}/c?fieldManager=m{number}", patch, MERGE)
    owned = owners(answer)
    assert list(owned) == ["ancient-changes/Update", *(f"m{number}/Update" for number in range(4, 13))]
    assert owned["ancient-changes/Update"] == {
        "f:data": {".": {}, "f:a": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}
    }


async def test_binding_adds_no_manager(api: Api) -> None:
    created = await api.post(PODS, POD)
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await api.create(PODS + "/p/binding", body)
    bound = await api.get(PODS + "/p")
    assert bound.body["spec"]["nodeName"] == "n"
    assert bound.meta["managedFields"] == created.meta["managedFields"]


async def test_kubelet_owns_conditions_by_type(api: Api) -> None:
    # The unset times are stored as null, and owned as well.
    condition: dict[str, Any] = {
        ".": {},
        "f:lastProbeTime": {},
        "f:lastTransitionTime": {},
        "f:status": {},
        "f:type": {},
    }
    await api.create(PODS, POD)
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}}
    assert owners(await api.request("PATCH", PODS + "/p/status?fieldManager=kubelet", patch, STRATEGIC))[
        "kubelet/Update/status"
    ] == {"f:status": {"f:conditions": {".": {}, 'k:{"type":"Ready"}': condition}, "f:phase": {}}}


async def test_server_owns_its_own_objects(api: Api) -> None:
    assert list(owners(await api.get("/api/v1/namespaces/default/services/kubernetes"))) == ["kube-apiserver/Update"]


async def test_managed_fields_are_extracted_from_any_stored_object(api: Api) -> None:
    """The fields of templates and the text of annotations look like managedFields, and are not."""
    template = {
        "metadata": {"managedFields": [{"manager": "x"}], "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    annotation = '{"x":1},"managedFields":[{"manager":"y"}]},"spec":{'
    metadata: tuple[dict[str, Any], ...] = ({}, {"managedFields": []})
    for number, fields in enumerate(metadata):
        meta = {"name": f"t{number}", "annotations": {"note": annotation}, **fields}
        await api.create("/api/v1/namespaces/default/podtemplates", {"metadata": meta, "template": template})
    records = api.store.list("/podtemplates/").records
    for value in [record.value for record in records]:
        obj = json.loads(value)
        expected = obj["metadata"].pop("managedFields")
        for encoded in (value, value + b"\n"):  # with a remembered size and without
            without_managed_fields, entries = split_managed_fields(encoded)
            assert json.loads(entries) == expected
            assert json.loads(without_managed_fields) == obj


async def test_lease_is_owned_by_its_holder(api: Api) -> None:
    await api.create(LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 1}})
    lease = await api.get(LEASES + "/l")
    lease.body["spec"]["holderIdentity"] = "b"
    del lease.meta["managedFields"]
    assert owners(await api.request("PUT", LEASES + "/l?fieldManager=b", lease.body)) == {
        "b/Update": {"f:spec": {"f:holderIdentity": {}}},
        "test/Update": {"f:spec": {"f:leaseDurationSeconds": {}}},
    }


async def test_dry_run_returns_managed_fields(api: Api) -> None:
    assert owners(await api.post(CONFIG_MAPS + "?dryRun=All", {"metadata": {"name": "c"}, "data": {"a": "1"}})) == {
        "test/Update": {"f:data": {".": {}, "f:a": {}}}
    }


async def test_empty_user_agent_is_manager_unknown(api: Api) -> None:
    managers = []
    for agent in ("", "/1.0", "x" * 200 + "/1"):
        body = {"metadata": {"generateName": "c"}, "data": {"a": "1"}}
        answer = await api.request("POST", CONFIG_MAPS, body, **{"user-agent": agent})
        managers += [entry["manager"] for entry in answer.meta["managedFields"]]
    assert managers == ["unknown", "unknown", "x" * 128]


async def test_unchanged_managed_fields_are_accepted(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "1"}})
    body = created.text.replace('"b":"1"', '"b":"2"').encode()
    assert owners(await api.request("PUT", CONFIG_MAPS + "/c?fieldManager=other", body)) == {
        "other/Update": {"f:data": {"f:b": {}}},
        "test/Update": {"f:data": {".": {}, "f:a": {}}},
    }


HPAS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"


async def test_entries_keep_their_api_version(api: Api) -> None:
    """A write in one version takes ownership from managers that wrote in another version; their entries keep it."""
    reference = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    spec = {"scaleTargetRef": reference, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    await api.create(HPAS.format("v1"), {"metadata": {"name": "h"}, "spec": spec})
    patch = {"spec": {"maxReplicas": 4}}
    answer = await api.request("PATCH", HPAS.format("v2") + "/h?fieldManager=other", patch, MERGE)
    entries = {entry["manager"]: (entry["apiVersion"], entry["fieldsV1"]) for entry in answer.meta["managedFields"]}
    assert entries["other"] == ("autoscaling/v2", {"f:spec": {"f:maxReplicas": {}}})
    version, fields = entries["test"]
    assert version == "autoscaling/v1"
    assert set(fields["f:spec"]) == {"f:minReplicas", "f:scaleTargetRef", "f:targetCPUUtilizationPercentage"}


async def test_pod_ips_are_owned_by_address(api: Api) -> None:
    for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.1")):
        await api.create(PODS, {**POD, "metadata": {"name": name}})
        status = f"{PODS}/{name}/status?fieldManager="
        pod_ips = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        await api.request("PATCH", status + "kubelet", pod_ips, STRATEGIC)
        await api.request("PATCH", status + "kubelet", {"status": {"phase": "Running"}}, STRATEGIC)
    # A second address; and another manager takes ownership of the phase.
    second_address = {"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}
    await api.request("PATCH", f"{PODS}/c/status?fieldManager=kubelet", second_address, STRATEGIC)
    await api.request("PATCH", f"{PODS}/b/status?fieldManager=other", {"status": {"phase": "Failed"}}, STRATEGIC)
    owned = [
        owners(answer)["kubelet/Update/status"]["f:status"]
        for answer in [await api.get(f"{PODS}/{name}") for name in "abc"]
    ]
    assert [sorted(fields["f:podIPs"]) for fields in owned] == [
        [".", 'k:{"ip":"10.0.0.1"}'],
        [".", 'k:{"ip":"10.0.0.2"}'],
        [".", 'k:{"ip":"10.0.0.1"}', 'k:{"ip":"fd00::1"}'],
    ]
    assert ["f:phase" in fields for fields in owned] == [True, False, True]
