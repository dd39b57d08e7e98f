"""scale, binding, addresses of Services, and the local transport (facts from kube-apiserver v1.36.2)."""

import asyncio

import pytest
from tests.apiserver.api import (
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE,
    PODS,
    REPLICA_SETS,
    STRATEGIC,
    Api,
    Object,
    config_map,
    pod,
    replica_set,
)
from tests.tables import cases

from pilothouse.api.wire import Request

SCALE = REPLICA_SETS + "/r/scale"
SERVICES = "/api/v1/namespaces/default/services"


async def test_scale_of_a_workload(api: Api) -> None:
    created = await api.create(REPLICA_SETS, replica_set(replicas=2))
    answer = await api.get(SCALE)
    meta = created["metadata"]
    assert answer.body == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")},
        "spec": {"replicas": 2},
        "status": {"replicas": 0, "selector": "app=x"},
    }


@cases(
    "content_type, patch",
    {
        "merge patch": (MERGE, {"spec": {"replicas": 5}}),
        "strategic merge patch": (STRATEGIC, {"spec": {"replicas": 5}}),
        "JSON patch": (JSON_PATCH, [{"op": "replace", "path": "/spec/replicas", "value": 5}]),
    },
)
async def test_scaling_by_patch(api: Api, content_type: str, patch: object) -> None:
    await api.create(REPLICA_SETS, replica_set())
    scaled = await api.patch(SCALE, patch, content_type)
    answer = await api.get(REPLICA_SETS + "/r")
    assert scaled.body["kind"] == "Scale"
    assert scaled.body["spec"] == {"replicas": 5}
    assert scaled.meta["resourceVersion"] == answer.meta["resourceVersion"]
    assert answer.body["spec"]["replicas"] == 5
    assert answer.meta["generation"] == 2


async def test_scaling_by_put(api: Api) -> None:
    await api.create(REPLICA_SETS, replica_set())
    scale = (await api.get(SCALE)).body
    scale["spec"] = {}
    zero = await api.put(SCALE, scale)
    stale = await api.put(SCALE, scale)
    answer = await api.get(REPLICA_SETS + "/r")
    assert zero.body["spec"] == {}
    assert answer.body["spec"]["replicas"] == 0
    assert stale.status == 409
    assert stale.message.startswith(
        'Operation cannot be fulfilled on replicasets.apps "r": the object has been modified'
    )


@cases(
    "body, code, message",
    {
        "negative": (
            {"metadata": {"name": "r"}, "spec": {"replicas": -1}},
            422,
            'Scale.autoscaling "r" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
        ),
        "precondition of another uid": ({"metadata": {"name": "r", "uid": "a"}, "spec": {"replicas": 1}}, 409, None),
    },
)
async def test_rejected_scales(api: Api, body: Object, code: int, message: str | None) -> None:
    await api.create(REPLICA_SETS, replica_set())
    answer = await api.put(SCALE, body)
    assert answer.status == code
    if message is not None:
        assert answer.message == message


async def test_scale_of_a_missing_object_is_not_found(api: Api) -> None:
    answer = await api.get(SCALE)
    assert (answer.status, answer.message) == (404, 'replicasets.apps "r" not found')


# Binding


def _binding(name: str = "p", node: str = "n1", **meta: object) -> Object:
    return {"metadata": {"name": name, **meta}, "target": {"kind": "Node", "name": node}}


@pytest.mark.parametrize("target", [PODS + "/p/binding", "/api/v1/namespaces/default/bindings"])
async def test_binding_sets_the_node_name(api: Api, target: str) -> None:
    await api.create(PODS, pod())
    answer = await api.post(target, _binding(annotations={"a": "b"}))
    response = await api.get(PODS + "/p")
    assert answer.status == 201
    assert answer.body == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert response.body["spec"]["nodeName"] == "n1"
    assert response.meta["annotations"] == {"a": "b"}
    assert response.meta["generation"] == 1
    assert response.body["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]


@cases(
    "binding, body, code, message",
    {
        "another name": (pod(), _binding("q"), 400, "name in URL does not match name in Binding object"),
        "already assigned to a node": (
            pod(nodeName="n0"),
            _binding(),
            409,
            'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n0"',
        ),
        "gated": (
            pod(schedulingGates=[{"name": "a.b/c"}]),
            _binding(),
            409,
            'Operation cannot be fulfilled on pods/binding "p": pod p has non-empty .spec.schedulingGates',
        ),
        "another resourceVersion": (
            pod(),
            _binding(resourceVersion="1"),
            409,
            'Operation cannot be fulfilled on pods "p": the object has been modified; please apply your changes to the '
            "latest version and try again",
        ),
        "missing target": (pod(), _binding(node=""), 500, "target.name: Required value"),
        "missing pod": (pod("q"), _binding(), 404, 'pods "p" not found'),
    },
)
async def test_rejected_bindings(api: Api, binding: Object, body: Object, code: int, message: str) -> None:
    await api.create(PODS, binding)
    answer = await api.post(PODS + "/p/binding", body)
    assert (answer.status, answer.message) == (code, message)


async def test_unknown_subresources(api: Api) -> None:
    assert (await api.get(PODS + "/p/nonsense")).status == 404
    assert (await api.request("DELETE", REPLICA_SETS + "/r/status")).status == 405


# Services


async def test_services_get_unique_addresses_and_ports(api: Api) -> None:
    body = {"spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    specs = [(await api.create(SERVICES, {**body, "metadata": {"name": f"s{i}"}}))["spec"] for i in range(20)]
    assert len({spec["clusterIP"] for spec in specs}) == 20
    ports = {spec["ports"][0]["nodePort"] for spec in specs}
    assert len(ports) == 20 and all(30000 <= port <= 32767 for port in ports)


async def test_update_keeps_allocations(api: Api) -> None:
    created = await api.create(
        SERVICES, {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    )
    body = {
        "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}},
    }
    answer = await api.put(SERVICES + "/s", body)
    assert answer.status == 200
    assert answer.body["spec"] == {**created["spec"], "selector": {"a": "b"}}


# The local transport


@pytest.mark.not_on("etcd", reason="a write to etcd takes more turns of the loop")
async def test_local_call_yields_and_a_cancelled_write_may_be_committed(api: Api) -> None:
    result = []
    for turns in range(3):
        body = b'{"metadata":{"name":"c%d"}}' % turns
        request = Request("POST", CONFIG_MAPS, {"content-type": "application/json"}, body)
        task = asyncio.ensure_future(api.transport.request(request))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        result.append((await api.get(f"{CONFIG_MAPS}/c{turns}")).status)
    # Cancelled before it began, before it was read, and between the write and its answer.
    assert result == [404, 404, 200]


async def test_discovery_and_version_are_served_locally(api: Api) -> None:
    version = await api.get("/version")
    apps = await api.get("/apis/apps/v1")
    nothing = await api.get("/nonsense")
    assert version.body["gitVersion"].startswith("v1.36.2+pilothouse")
    assert apps.body["kind"] == "APIResourceList"
    assert (nothing.status, nothing.text) == (404, "404 page not found\n")


async def test_metadata_is_served_locally(api: Api) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    await api.create(CONFIG_MAPS, config_map(data={"a": "b"}))
    answer = await api.request("GET", CONFIG_MAPS, accept=accept)
    assert answer.body["kind"] == "PartialObjectMetadataList"
    assert set(answer.body["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_status_update_cannot_set_a_deletion_timestamp(api: Api) -> None:
    await api.create(PODS, pod("x"))
    change = {"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": {"message": "m"}}
    answer = await api.patch(PODS + "/x/status", change, MERGE)
    assert answer.status == 200, answer.text
    assert answer.body["status"]["message"] == "m"
    assert "deletionTimestamp" not in answer.body["metadata"]


async def test_data_source_is_printed_with_its_group(api: Api) -> None:
    source = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}}
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **source}
    claim = {"metadata": {"name": "data"}, "spec": wanted}
    spec = {**replica_set()["spec"], "serviceName": "s", "volumeClaimTemplates": [claim]}
    sets = "/apis/apps/v1/namespaces/default/statefulsets"
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": wanted}}}
    created = await api.create(sets, {"metadata": {"name": "s"}, "spec": spec})
    created_pod = await api.create(PODS, pod("p", volumes=[volume]))
    volume_source = next(item for item in created_pod["spec"]["volumes"] if item["name"] == "v")
    for spec in (
        created["spec"]["volumeClaimTemplates"][0]["spec"],
        volume_source["ephemeral"]["volumeClaimTemplate"]["spec"],
    ):
        assert spec["dataSource"] == {"apiGroup": None, "kind": "PersistentVolumeClaim", "name": "c"}
