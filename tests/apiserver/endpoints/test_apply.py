"""Server-side apply: merging, removal, ownership and rejections. Texts are v1.36's."""

import asyncio
from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, MERGE, PODS, Answer, Api
from tests.apiserver.endpoints.apply_scenarios import APPLY, CRD, config_map, crontab, deployment, service
from tests.apiserver.registry.generic.test_managed_fields import DEPLOYMENTS, owners
from tests.tables import cases

C = CONFIG_MAPS + "/c"
D = DEPLOYMENTS + "/d"
S = "/api/v1/namespaces/default/services/s"
_C = {"name": "c", "image": "i"}
T = "/apis/story.example.com/v1/namespaces/default/crontabs/t"


async def applied(api: Api, path: str, body: Any, manager: str = "m1", more: str = "") -> Answer:
    return await api.request("PATCH", f"{path}?fieldManager={manager}{more}", body, APPLY)


async def apply_all(api: Api, *steps: tuple[Any, ...]) -> list[Answer]:
    """The answers to applies in a row: (path, body, manager, more)."""
    running = asyncio.ensure_future(api.server.run())
    if any(step[0] == T for step in steps):
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    answers = [await applied(api, *step) for step in steps]
    running.cancel()
    return answers


async def test_apply_creates_a_missing_object(api: Api) -> None:
    first, again = await apply_all(api, (C, config_map(a="1")), (C, config_map(a="1")))
    assert (first.status, again.status) == (201, 200)
    assert owners(first) == {"m1/Apply": {"f:data": {"f:a": {}}}}
    assert again.body == first.body, "nothing has changed, not even a time"


async def test_fields_no_longer_applied_are_removed_unless_owned_by_others(api: Api) -> None:
    answer = (await apply_all(api, (C, config_map(a="1", b="1")), (C, config_map(a="1"), "m2"), (C, config_map())))[-1]
    assert answer.body["data"] == {"a": "1"}
    assert owners(answer) == {"m2/Apply": {"f:data": {"f:a": {}}}}


async def test_null_list_keeps_items_of_others(api: Api) -> None:
    """Its items are object references, which are atomic."""
    path = "/api/v1/namespaces/default/serviceaccounts"

    def account(secrets: Any) -> Any:
        return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": secrets}

    await api.create(path, account([{"name": "one"}]))
    await applied(api, f"{path}/a", account([{"name": "two"}]))
    answer = await applied(api, f"{path}/a", account(None))
    assert answer.body["secrets"] == [{"name": "one"}]
    assert owners(answer) == {
        "m1/Apply": {"f:secrets": {}},
        "test/Update": {"f:secrets": {".": {}, 'k:{"name":"one"}': {}}},
    }


async def test_conflict_names_managers_and_fields(api: Api) -> None:
    await applied(api, C, config_map(a="1"))
    await api.request("PATCH", C + "?fieldManager=u1", {"data": {"x": "1"}}, MERGE)
    answer = await applied(api, C, config_map(a="2", x="2"), "m2")
    assert answer.status == 409
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.a\n'
        'conflicts with "u1" using v1:\n- .data.x',
        "reason": "Conflict",
        "details": {
            "causes": [
                {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.a"},
                {"reason": "FieldManagerConflict", "message": 'conflict with "u1" using v1', "field": ".data.x"},
            ]
        },
        "code": 409,
    }


async def test_force_takes_ownership(api: Api) -> None:
    answer = (await apply_all(api, (C, config_map(a="1", b="1")), (C, config_map(a="2"), "m2", "&force=true")))[-1]
    assert answer.body["data"] == {"a": "2", "b": "1"}
    assert owners(answer) == {"m1/Apply": {"f:data": {"f:b": {}}}, "m2/Apply": {"f:data": {"f:a": {}}}}


async def test_before_first_apply_manager(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, config_map(a="1", b="1"))
    created.meta["managedFields"] = []
    await api.put(C, created.body)
    assert owners(await applied(api, C, config_map(a="2"), "m1", "&force=true")) == {
        "m1/Apply": {"f:data": {"f:a": {}}},
        "before-first-apply/Update": {"f:data": {".": {}, "f:b": {}}},
    }


@cases(
    "live, config, order",
    {
        "new item without successor": ("ce", "b", "ceb"),
        "new item before its successor": ("ce", "be", "cbe"),
        "new items before and after a shared one": ("ce", "zey", "czey"),
        "shared items in the order of the configuration": ("abc", "ca", "bca"),
    },
)
async def test_items_keep_their_order(api: Api, live: str, config: str, order: str) -> None:
    one, other = ([{"name": name, "image": "i"} for name in names] for names in (live, config))
    answer = (await apply_all(api, (D, deployment(one)), (D, deployment(other), "m2")))[-1]
    assert [container["name"] for container in answer.body["spec"]["template"]["spec"]["containers"]] == list(order)


async def test_port_without_protocol_is_keyed_as_tcp(api: Api) -> None:
    ports = [{"port": 80, "name": "a"}, {"port": 80, "name": "u", "protocol": "UDP"}]
    first, second = await apply_all(api, (S, service(*ports)), (S, service(ports[0])))
    spec = owners(first)["m1/Apply"]["f:spec"]
    assert list(spec["f:ports"]) == ['k:{"port":80,"protocol":"TCP"}', 'k:{"port":80,"protocol":"UDP"}']
    assert [port["protocol"] for port in second.body["spec"]["ports"]] == ["TCP"]


async def test_custom_resources_merge_by_their_schema(api: Api) -> None:
    one = {"tags": ["a", "b"], "list": ["x"], "whole": {"a": "1"}, "map": {"a": "1"}, "ports": [{"port": 80}]}
    two = {"tags": ["c"], "map": {"b": "1"}, "ports": [{"port": 80, "protocol": "UDP"}]}
    first, second, third, fourth = await apply_all(
        api,
        (T, crontab(one)),
        (T, crontab(two), "m2"),
        (T, crontab({"whole": {"b": "1"}, "list": ["x", "y"]}), "m3"),
        (T, crontab({"tags": ["b"]})),
    )
    assert owners(first)["m1/Apply"]["f:spec"] == {
        "f:list": {},
        "f:map": {"f:a": {}},
        "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
        "f:tags": {'v:"a"': {}, 'v:"b"': {}},
        "f:whole": {},
    }
    assert second.body["spec"]["tags"] == ["a", "b", "c"]
    assert second.body["spec"]["map"] == {"a": "1", "b": "1"}
    assert third.message == 'Apply failed with 2 conflicts: conflicts with "m1":\n- .spec.list\n- .spec.whole'
    assert fourth.body["spec"] == {
        "tags": ["b", "c"],
        "map": {"b": "1"},
        "ports": [{"port": 80, "protocol": "UDP"}],
    }


async def test_status_is_applied_through_its_subresource(api: Api) -> None:
    status = {"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 3}}
    main, answer = await apply_all(api, (D, {**deployment(), "status": {"replicas": 9}}), (D + "/status", status, "st"))
    assert "f:status" not in owners(main)["m1/Apply"]
    assert "replicas" not in main.body["status"]
    assert owners(answer)["st/Apply/status"] == {"f:status": {"f:replicas": {}}}
    assert answer.body["status"] == {"replicas": 3}


async def test_a_dry_run_stores_nothing(api: Api) -> None:
    dry = await applied(api, C, config_map(a="1"), "m1", "&dryRun=All")
    answer = await api.get(C)
    assert (dry.status, answer.status) == (201, 404)
    assert owners(dry) == {"m1/Apply": {"f:data": {"f:a": {}}}}


async def test_client_side_apply_is_migrated_to_server_side_apply(api: Api) -> None:
    note = "kubectl.kubernetes.io/last-applied-configuration"
    text = '{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"name":"c"}}'
    migrated = config_map(a="1", b="1", meta={"annotations": {note: text}})
    await api.request("POST", CONFIG_MAPS + "?fieldManager=kubectl-client-side-apply", migrated)
    beyond, other, allowed = [
        await applied(api, C, config_map(a="2", b="2"), "kubectl"),
        await applied(api, C, config_map(a="2"), "other"),
        await applied(api, C, config_map(a="2"), "kubectl"),
    ]
    assert beyond.message == 'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.b'
    assert other.status == 409
    assert allowed.body["data"] == {"a": "2", "b": "1"}
    assert allowed.meta["annotations"][note] == (
        '{"apiVersion":"v1","data":{"a":"2"},"kind":"ConfigMap","metadata":{"name":"c"}}\n'
    )


async def test_resource_version_is_a_precondition_of_existing_objects(api: Api) -> None:
    created, answer = await apply_all(
        api,
        (C, config_map(a="1", meta={"resourceVersion": "1"})),
        (C, config_map(a="2", meta={"resourceVersion": "1"})),
    )
    assert created.status == 201
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


async def test_uid_of_a_missing_object_is_a_conflict(api: Api) -> None:
    (answer,) = await apply_all(api, (C, config_map(a="1", meta={"uid": "u"})))
    assert answer.status == 409
    assert "uid mismatch: the provided object specified uid u, and no existing object was found" in answer.message


TWICE = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  k: a\n  k: b\n"


async def test_duplicate_yaml_key_by_field_validation(api: Api) -> None:
    ways = ("Strict", "Warn", "Ignore", "Strict")
    answers = [await applied(api, C, TWICE, "m", "&fieldValidation=" + method) for method in ways]
    strict, warned, ignored, again, stored = [*answers, await api.get(C)]
    assert again.body == strict.body
    assert stored.meta["resourceVersion"] == ignored.meta["resourceVersion"]
    assert (strict.status, strict.message) == (
        400,
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 7: key "k" already set in map',
    )
    assert warned.status == 201
    assert warned.headers["warning"] == '299 - "line 7: key \\"k\\" already set in map"'
    assert ignored.body["data"] == {"k": "b"}
    assert "warning" not in ignored.headers


def _scale(replicas: int) -> Any:
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": replicas}}


async def test_scale_takes_ownership_of_replicas(api: Api) -> None:
    await applied(api, D, deployment(replicas=2))
    await api.request("PATCH", D + "/scale?fieldManager=hpa", {"spec": {"replicas": 3}}, MERGE)
    scaled = await api.get(D)
    rejected = await applied(api, D, deployment(replicas=2))
    await api.request("PATCH", D + "/scale?fieldManager=hpa", {"spec": {"replicas": 3}}, MERGE)
    unchanged = await api.get(D)
    assert owners(scaled)["hpa/Update/scale"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in owners(scaled)["m1/Apply"]["f:spec"]
    assert rejected.message == (
        'Apply failed with 1 conflict: conflict with "hpa" with subresource "scale" using apps/v1: .spec.replicas'
    )
    assert unchanged.body == scaled.body


async def test_apply_to_the_scale_subresource(api: Api) -> None:
    created, rejected, forced = await apply_all(
        api,
        (D, deployment(replicas=2)),
        (D + "/scale", _scale(5), "hpa"),
        (D + "/scale", _scale(5), "hpa", "&force=true"),
    )
    assert created.status == 201
    assert rejected.message == 'Apply failed with 1 conflict: conflict with "m1": .spec.replicas'
    assert (forced.status, forced.body["kind"], forced.body["spec"]) == (200, "Scale", {"replicas": 5})


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [{"image": "i"}]}, "spec.containers[0].name"),
        ({"containers": [_C], "volumes": [{"emptyDir": {}}]}, "spec.volumes[0].name"),
        ({"containers": [_C], "topologySpreadConstraints": [{}]}, "spec.topologySpreadConstraints[0].topologyKey"),
    ],
)
async def test_missing_list_key_defaults_to_the_zero_value(api: Api, spec: dict[str, Any], field: str) -> None:
    """Fields that are never left out have their zero as default, also as keys."""
    [answer] = await apply_all(api, (f"{PODS}/p", {"apiVersion": "v1", "kind": "Pod", "spec": spec}))
    assert answer.status == 422, answer.text
    assert field in [cause["field"] for cause in answer.body["details"]["causes"]]


async def test_too_large_number_is_truncated(api: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 4294967376}]}]}
    [answer] = await apply_all(api, (f"{PODS}/p", {"apiVersion": "v1", "kind": "Pod", "spec": spec}))
    assert answer.status == 201, answer.text
    assert answer.body["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


async def test_fractional_number_is_an_error(api: Api) -> None:
    spec = {"containers": [_C], "priority": 1.5}
    [answer] = await apply_all(api, (f"{PODS}/p", {"apiVersion": "v1", "kind": "Pod", "spec": spec}))
    assert answer.status == 500
    assert answer.message.endswith(
        "to proper version: unable to convert unstructured object to /v1, Kind=Pod: cannot convert float64 to int32"
    )


async def test_applied_cluster_scoped_object_has_no_namespace(api: Api) -> None:
    meta = {"name": "r", "namespace": "other"}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta}
    for _ in range(2):
        answer = await applied(api, "/apis/rbac.authorization.k8s.io/v1/clusterroles/r", role)
        assert (answer.meta["name"], "namespace" in answer.meta) == ("r", False)
