"""update and patch: conflicts, no-ops, generation, immutable metadata (facts from kube-apiserver v1.36.2)."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.apiserver.api import (
    CONFIG_MAPS,
    JSON_PATCH,
    LEASES,
    MERGE,
    PODS,
    REPLICA_SETS,
    STRATEGIC,
    Answer,
    Api,
    Object,
    config_map,
    pod,
    replica_set,
)
from tests.tables import cases

from pilothouse.env import Env


async def _put(
    api: Api, change: Callable[[Object], Any], *, obj: Object | None = None, target: str = CONFIG_MAPS
) -> tuple[Object, Answer]:
    """Create an object, change it, and PUT it."""
    first = await api.create(target, obj or config_map(data={"a": "1"}))
    sent = copy.deepcopy(first)
    change(sent)
    return first, await api.put(f"{target}/{first['metadata']['name']}", sent)


async def test_put_replaces_the_object(api: Api) -> None:
    first, answer = await _put(api, lambda obj: obj["data"].update(a="2"))
    assert answer.status == 200
    assert answer.body["data"] == {"a": "2"}
    assert int(answer.meta["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1


async def test_no_op_put_writes_nothing(env: Env) -> None:
    for target, obj in ((CONFIG_MAPS, config_map(data={"a": "1"})), (PODS, pod()), (REPLICA_SETS, replica_set())):
        first, answer = await _put(Api(env), lambda _obj: None, obj=obj, target=target)
        assert answer.body == first


async def test_put_without_resource_version_overwrites(api: Api) -> None:
    _first, answer = await _put(api, lambda obj: (obj["metadata"].pop("resourceVersion"), obj["data"].update(a="3")))
    assert (answer.status, answer.body["data"]) == (200, {"a": "3"})


async def test_put_creates_a_lease(api: Api) -> None:
    assert (
        await api.put(LEASES + "/new", {"metadata": {"name": "new"}, "spec": {"holderIdentity": "a"}})
    ).status == 201


async def _put_again(api: Api, change: Callable[[Object], Any]) -> Answer:
    """A Lease is deleted, and its holder still updates it (responses of kube-apiserver v1.20.2)."""
    lease = await api.create(LEASES, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "a"}})
    await api.delete(f"{LEASES}/a")
    change(lease["metadata"])
    return await api.put(f"{LEASES}/a", lease)


async def test_put_with_a_resource_version_recreates_a_deleted_lease(api: Api) -> None:
    answer = await _put_again(api, lambda meta: meta.pop("uid"))
    assert answer.status == 201


async def test_put_with_the_uid_of_a_deleted_lease_is_a_conflict(api: Api) -> None:
    answer = await _put_again(api, lambda _meta: None)
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert answer.body["message"].endswith("UID in object meta: ")


async def test_system_metadata_cannot_be_changed(api: Api) -> None:
    first, answer = await _put(
        api, lambda obj: obj["metadata"].update(creationTimestamp="2001-01-01T00:00:00Z", generation=77)
    )
    assert answer.body == first


async def test_put_of_a_missing_object_is_not_found(api: Api) -> None:
    assert (await api.put(CONFIG_MAPS + "/nothing", config_map("nothing"))).status == 404


# Generation and status


@cases(
    "target, obj, change, generation",
    {
        "a changed spec raises it": (REPLICA_SETS, replica_set(), lambda o: o["spec"].update(replicas=3), 2),
        "changed labels do not": (REPLICA_SETS, replica_set(), lambda o: o["metadata"].update(labels={"a": "b"}), 1),
        "a status in the body is ignored": (REPLICA_SETS, replica_set(), lambda o: o["status"].update(replicas=9), 1),
        "generation of a pod": (PODS, pod(), lambda o: o["spec"].update(activeDeadlineSeconds=9), 2),
        "ConfigMaps have no generation": (CONFIG_MAPS, config_map(), lambda o: o.update(data={"a": "b"}), None),
    },
)
async def test_generation(
    api: Api, target: str, obj: Object, change: Callable[[Object], Any], generation: int | None
) -> None:
    _first, answer = await _put(api, change, obj=obj, target=target)
    assert answer.status == 200
    assert answer.meta.get("generation") == generation
    assert answer.body.get("status", {}).get("replicas", 0) == 0


async def test_status_update_changes_only_the_status(api: Api) -> None:
    first = await api.create(REPLICA_SETS, replica_set())
    first["spec"]["replicas"] = 7
    first["metadata"]["annotations"] = {"a": "b"}
    first["status"] = {"replicas": 1, "observedGeneration": 1}
    answer = await api.put(REPLICA_SETS + "/r/status", first)
    assert answer.body["spec"]["replicas"] == 1
    assert answer.body["status"] == {"replicas": 1, "observedGeneration": 1}
    assert answer.meta["generation"] == 1
    assert answer.meta["annotations"] == {"a": "b"}


async def test_pod_status_update_keeps_owner_references(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    first = await api.create(PODS, pod(metadata={"ownerReferences": [owner]}))
    del first["metadata"]["ownerReferences"]
    first["metadata"]["labels"] = {"a": "b"}
    first["status"] = {"phase": "Running"}
    answer = await api.put(PODS + "/p/status", first)
    assert answer.meta["ownerReferences"] == [owner]
    assert answer.meta["labels"] == {"a": "b"}
    assert answer.body["status"] == {"phase": "Running", "qosClass": "BestEffort"}


async def test_pod_image_can_be_updated(api: Api) -> None:
    _first, answer = await _put(
        api, lambda o: o["spec"]["containers"][0].update(image="nginx:2"), obj=pod(), target=PODS
    )
    assert (answer.status, answer.meta["generation"]) == (200, 2)


# Finalizers


async def test_no_finalizer_is_added_while_deleting(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map(metadata={"finalizers": ["a.b/c"]}))
    await api.delete(CONFIG_MAPS + "/c")
    answer = await api.patch(CONFIG_MAPS + "/c", {"metadata": {"finalizers": ["a.b/c", "x.y/z"]}})
    assert answer.status == 422
    assert answer.message == (
        'ConfigMap "c" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the '
        "object is being "
        'deleted, found new finalizers []string{"x.y/z"}'
    )
    assert len(answer.body["details"]["causes"]) == 2


async def test_removing_the_last_finalizer_deletes_the_object(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map(metadata={"finalizers": ["a.b/c"]}))
    marked = await api.delete(CONFIG_MAPS + "/c")
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion={marked.meta['resourceVersion']}&timeoutSeconds=1")
    last = await api.patch(CONFIG_MAPS + "/c", {"metadata": {"finalizers": None}})
    assert last.status == 200
    assert "finalizers" not in last.meta
    assert last.meta["resourceVersion"] == marked.meta["resourceVersion"]
    # Watchers see the last stored state, with the revision of the deletion.
    [(type_, obj)] = await events.rest()
    assert type_ == "DELETED"
    deleted_meta = obj["metadata"]
    assert deleted_meta["finalizers"] == ["a.b/c"]
    assert int(deleted_meta["resourceVersion"]) == int(marked.meta["resourceVersion"]) + 1


# Patches


@cases(
    "content_type, patch, data",
    {
        "merge: null removes": (MERGE, {"data": {"a": None, "b": "2"}}, {"b": "2", "c": "3"}),
        "strategic: null removes": (STRATEGIC, {"data": {"a": None, "b": "2"}}, {"b": "2", "c": "3"}),
        "strategic: a map is replaced on demand": (STRATEGIC, {"data": {"$patch": "replace", "z": "1"}}, {"z": "1"}),
        "json patch: operations in order": (
            JSON_PATCH,
            [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/d", "value": "4"}],
            {"a": "1", "c": "3", "d": "4"},
        ),
        "JSON patch without operations": (JSON_PATCH, [], {"a": "1", "c": "3"}),
    },
)
async def test_patch_types(api: Api, content_type: str, patch: object, data: Object) -> None:
    await api.create(CONFIG_MAPS, config_map(data={"a": "1", "c": "3"}))
    answer = await api.patch(CONFIG_MAPS + "/c", patch, content_type)
    assert (answer.status, answer.body["data"]) == (200, data)


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
async def test_patched_members_keep_the_canonical_order(api: Api, content_type: str) -> None:
    binary = {"binaryData": {"b": "AAAA"}}
    await api.create(CONFIG_MAPS, config_map(data={"a": "1"}))
    whole = await api.create(CONFIG_MAPS, {**config_map("d", data={"a": "1"}), **binary})
    patched = await api.patch(CONFIG_MAPS + "/c", binary, content_type)
    assert list(patched.body) == list(whole)


@cases(
    "patch, message",
    {
        "an unknown member": ({"nope": 1}, 'strict decoding error: unknown field "nope"'),
        "an unknown field in a member": ({"metadata": {"nope": 1}}, 'unknown field "metadata.nope"'),
        "a value of the wrong type": ({"data": {"a": 5}}, "cannot unmarshal number"),
    },
)
async def test_patch_errors_refer_to_the_patched_object(api: Api, patch: Object, message: str) -> None:
    await api.create(CONFIG_MAPS, config_map(data={"a": "1", "kept": "2"}))
    answer = await api.request("PATCH", CONFIG_MAPS + "/c?fieldValidation=Strict", patch, MERGE)
    assert answer.status == 422, answer.text
    assert message in answer.message
    assert '"kept":"2"' in answer.message.replace('\\"', '"')


@cases(
    "spec, value, why",
    {
        "a value of another type": ({"replicas": "many"}, "replicas:many", "unrecognized type: int32"),
        "an unknown field": (
            {"minReplicas": 1},
            "minReplicas:1",
            'strict decoding error: unknown field "spec.minReplicas"',
        ),
    },
)
async def test_strategic_patch_errors_refer_to_the_patch(api: Api, spec: Object, value: str, why: str) -> None:
    name = (await api.create(REPLICA_SETS, replica_set()))["metadata"]["name"]
    answer = await api.patch(f"{REPLICA_SETS}/{name}?fieldValidation=Strict", {"spec": spec}, STRATEGIC)
    assert answer.status == 422
    assert answer.message == f' "" is invalid: patch: Invalid value: "map[spec:map[{value}]]": {why}'


async def test_empty_lists_and_maps_of_a_patch_are_not_stored(api: Api) -> None:
    await api.create(PODS, pod())
    empty: Object = {"metadata": {"labels": {}, "finalizers": []}, "spec": {"tolerations": []}}
    body = (await api.patch(PODS + "/p", empty)).body
    assert "labels" not in body["metadata"]
    assert "finalizers" not in body["metadata"]


async def test_conditions_merge_by_type(api: Api) -> None:
    await api.create(PODS, pod())
    ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await api.patch(PODS + "/p/status", ready, STRATEGIC)
    more = {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]}}
    conditions = (await api.patch(PODS + "/p/status", more, STRATEGIC)).body["status"]["conditions"]
    assert {condition["type"]: condition["status"] for condition in conditions} == {"Ready": "True", "Other": "True"}
    # Times that are unset are printed, as upstream's struct does.
    assert conditions[0]["lastTransitionTime"] is None


async def test_status_patch_keeps_the_spec(api: Api) -> None:
    await api.create(REPLICA_SETS, replica_set())
    answer = await api.patch(REPLICA_SETS + "/r/status", {"spec": {"replicas": 5}, "status": {"replicas": 2}})
    assert (answer.body["spec"]["replicas"], answer.body["status"]["replicas"]) == (1, 2)


ADDRESSES = "may specify no more than one IP for each IP family"


@cases(
    "sent, kept, message",
    {
        "dual-stack addresses": (["10.0.0.2", "fd00::1"], ["10.0.0.2", "fd00::1"], ""),
        "two addresses of one family": (["10.0.0.2", "10.0.0.3"], [], ADDRESSES),
        "three": (["10.0.0.2", "fd00::1", "fd00::2"], [], ADDRESSES),
        "a double": (["10.0.0.2", "10.0.0.2"], [], ADDRESSES),
        "podIP precedes podIPs": (["10.0.0.3", "10.0.0.2"], ["10.0.0.2"], ""),
        "the single one alone": ([], ["10.0.0.2"], ""),
    },
)
async def test_pod_ips_have_one_address_per_family(api: Api, sent: list[str], kept: list[str], message: str) -> None:
    """``validatePodIPs`` and the conversion of ``podIP``; all of these patches have the podIP 10.0.0.2."""
    await api.create(PODS, pod())
    status = {"podIP": "10.0.0.2", **({"podIPs": [{"ip": ip} for ip in sent]} if sent else {})}
    answer = await api.patch(f"{PODS}/p/status", {"status": status}, MERGE)
    assert answer.status == (422 if message else 200)
    assert message in answer.message
    if not message:
        assert answer.body["status"]["podIP"] == "10.0.0.2"
        assert [pod_ip["ip"] for pod_ip in answer.body["status"]["podIPs"]] == kept


async def test_dry_run_update_stores_nothing(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map(data={"a": "1"}))
    dry = await api.request("PATCH", CONFIG_MAPS + "/c?dryRun=All", {"data": {"a": "2"}}, MERGE)
    answer = await api.get(CONFIG_MAPS + "/c")
    assert dry.body["data"] == {"a": "2"}
    assert answer.body["data"] == {"a": "1"}
    assert dry.meta["resourceVersion"] == answer.meta["resourceVersion"]


@pytest.mark.parametrize("name", ["managedFields", "resourceVersion", "metadata", "finalizers", "uid", "kind"])
async def test_labels_and_annotations_named_like_fields(api: Api, name: str) -> None:
    """Some code splits stored objects by their bytes."""
    original = config_map(data={"a": "1"})
    original["metadata"]["labels"] = {"a": "x", name: "1"}
    original["metadata"]["annotations"] = {"a": "x", name: '[{"b":1}]', "z": f',"{name}":[{{'}
    await api.create(CONFIG_MAPS, original)
    patched = await api.patch(CONFIG_MAPS + "/c", {"data": {"b": "2"}})
    put = await api.put(CONFIG_MAPS + "/c", {**patched.body, "data": {"c": "3"}})
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"d": "4"}}
    target = CONFIG_MAPS + "/c?fieldManager=m"
    for answer in (patched, put, await api.request("PATCH", target, applied, "application/apply-patch+yaml")):
        assert answer.status == 200, answer.text
        assert answer.meta["labels"] == {"a": "x", name: "1"}
        assert answer.meta["annotations"][name] == '[{"b":1}]'
        assert {entry["operation"] for entry in answer.meta["managedFields"]} >= {"Update"}


DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"


async def test_update_may_set_generate_name(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map())
    assert (await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"generateName": "x-"}})).meta["generateName"] == "x-"


async def test_patch_cannot_set_the_namespace_of_a_cluster_scoped_object(api: Api) -> None:
    await api.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    assert "namespace" not in (await api.patch("/api/v1/nodes/n", {"metadata": {"namespace": "x"}})).meta


async def test_status_update_keeps_the_template_generation(api: Api) -> None:
    spec = {name: value for name, value in replica_set()["spec"].items() if name != "replicas"}
    created = await api.create(DAEMON_SETS, {"metadata": {"name": "d"}, "spec": spec})
    created["metadata"]["annotations"] = {}
    assert (await api.put(f"{DAEMON_SETS}/d/status", created)).meta["annotations"] == {
        "deprecated.daemonset.template.generation": "1"
    }


async def test_status_update_sets_no_deletion_timestamp(api: Api) -> None:
    spec = {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
    await api.create(ATTACHMENTS, {"metadata": {"name": "a"}, "spec": spec})
    answer = await api.patch(f"{ATTACHMENTS}/a/status", {"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}})
    assert (answer.status, "deletionTimestamp" in answer.meta) == (200, False)
