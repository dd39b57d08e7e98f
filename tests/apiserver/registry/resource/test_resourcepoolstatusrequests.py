"""ResourcePoolStatusRequests: served only with their feature gate.

Rules mirror ``pkg/registry/resource/resourcepoolstatusrequest/declarative_validation_test.go`` and
``pkg/apis/resource/validation`` of v1.36.
"""

import asyncio
import json
from typing import Any

import pytest
from tests.apiserver.api import Api, Object
from tests.tables import cases

from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects
from pilothouse.apiserver.serializers import protobuf
from pilothouse.env import Env, TaskGroup

GATE = "DRAResourcePoolStatus"
VERSION = "resource.k8s.io/v1alpha3"
GATE_ON = ServerOptions(gates=(GATE,))
REQUESTS = f"/apis/{VERSION}/resourcepoolstatusrequests"


@pytest.fixture
async def api(env: Env) -> Api:
    return Api(env, GATE_ON)


@cases(
    "gates, expected",
    {
        "DRAResourcePoolStatus": ((GATE,), True),
        "by default": ((), False),
        "with another gate": (("GenericWorkload",), False),
    },
)
async def test_served_with_the_gate_only(env: Env, gates: tuple[str, ...], expected: bool) -> None:
    api = Api(env, ServerOptions(gates=gates))
    assert ((await api.get(REQUESTS)).status == 200) is expected
    group = (await api.get("/apis/resource.k8s.io")).body
    assert (VERSION in [version["groupVersion"] for version in group["versions"]]) is expected
    assert group["preferredVersion"]["groupVersion"] == "resource.k8s.io/v1"


async def test_api_service_exists_while_served(env: Env) -> None:
    service = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha3.resource.k8s.io"
    api = Api(env, GATE_ON)
    for options, expected in ((GATE_ON, 200), (ServerOptions(), 404)):
        server = ApiServer(env, api.store, options=options)
        api.transport = server.transport("admin", ("system:masters",))
        async with TaskGroup("server") as group:
            running = group.start(server.run(), name="server")
            await asyncio.sleep(1)
            assert (await api.get(service)).status == expected
            running.cancel()


def request(**spec: Any) -> Object:
    return {"metadata": {"name": "r"}, "spec": {"driver": "test.example.com", **spec}}


async def test_create_defaults_the_limit_and_drops_the_status(api: Api) -> None:
    created = await api.create(REQUESTS, {**request(), "status": {"poolCount": 3}})
    assert created["spec"] == {"driver": "test.example.com", "limit": 100}
    assert "status" not in created
    assert "generation" not in created["metadata"]
    assert "status" not in (await api.get(f"{REQUESTS}/r/status")).body
    deleted = await api.delete(f"{REQUESTS}/r")
    assert deleted.body["kind"] == "ResourcePoolStatusRequest"


_SUBDOMAIN = "must start and end with an alphanumeric character (e.g. "


@cases(
    "spec, message",
    {
        "empty driver": ({"driver": ""}, "spec.driver: Required value"),
        "invalid driver": (
            {"driver": "invalid driver!"},
            'spec.driver: Invalid value: "invalid driver!": an RFC 1123 subdomain must consist of alphanumeric '
            f"characters, '-' or '.', and {_SUBDOMAIN}'Example.com'",
        ),
        "empty pool name": ({"poolName": ""}, 'spec.poolName: Invalid value: "": segment 0: must not be empty'),
        "pool name with an empty segment": (
            {"poolName": "a//b"},
            'spec.poolName: Invalid value: "a//b": segment 1: must not be empty',
        ),
        "pool name with an invalid segment": (
            {"poolName": "a/B"},
            'spec.poolName: Invalid value: "B": segment 1: a lowercase RFC 1123 subdomain must consist of lower case',
        ),
        "pool name too long": ({"poolName": "p" * 254}, "spec.poolName: Too long: may not be more than 253 bytes"),
        "limit 0": ({"limit": 0}, "spec.limit: Invalid value: 0: must be greater than or equal to 1"),
        "limit above the maximum": (
            {"limit": 1001},
            "spec.limit: Invalid value: 1001: must be less than or equal to 1000",
        ),
    },
)
async def test_rejected_specs(api: Api, spec: Object, message: str) -> None:
    answer = await api.post(REQUESTS, request(**spec))
    assert answer.status == 422
    assert message in answer.message


@pytest.mark.parametrize(
    "spec", [{"driver": "Test.Example.com"}, {"poolName": "node-1/gpus"}, {"limit": 1}, {"limit": 1000}], ids=str
)
async def test_accepted_specs(api: Api, spec: Object) -> None:
    await api.create(REQUESTS, request(**spec))


async def test_spec_is_immutable(api: Api) -> None:
    created = await api.create(REQUESTS, request())
    answer = await api.patch(f"{REQUESTS}/r", {"spec": {"limit": 5}})
    assert answer.status == 422
    assert "spec: Invalid value" in answer.message
    assert "field is immutable" in answer.message
    unconditional = {**created, "metadata": {"name": "r"}}
    assert (await api.put(f"{REQUESTS}/r", unconditional)).status == 422
    labeled = await api.patch(f"{REQUESTS}/r", {"metadata": {"labels": {"a": "b"}}, "status": {"poolCount": 1}})
    assert labeled.meta["labels"] == {"a": "b"}
    assert "status" not in labeled.body


POOL: Object = {"driver": "test.example.com", "poolName": "pool-1", "generation": 1}
CONDITION: Object = {
    "type": "Complete",
    "status": "True",
    "reason": "CalculationComplete",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


async def test_status_is_immutable_once_set(api: Api) -> None:
    await api.create(REQUESTS, request())
    status = {"poolCount": 1, "pools": [POOL], "conditions": [CONDITION]}
    body = {"status": status, "spec": {"limit": 7}, "metadata": {"labels": {"a": "b"}}}
    answer = await api.patch(f"{REQUESTS}/r/status", body)
    assert answer.status == 200
    assert answer.body["status"] == status
    assert answer.body["spec"]["limit"] == 100
    assert "labels" not in answer.meta
    changed = await api.patch(f"{REQUESTS}/r/status", {"status": {"poolCount": 2}})
    assert changed.status == 422
    assert "status: Invalid value" in changed.message
    assert "field is immutable" in changed.message


def _pool(**fields: Any) -> Object:
    return {"poolCount": 1, "pools": [{**POOL, **fields}]}


@cases(
    "status, message",
    {
        "missing poolCount": ({"pools": [POOL]}, "status.poolCount: Required value"),
        "negative poolCount": (
            {"poolCount": -1},
            "status.poolCount: Invalid value: -1: must be greater than or equal to 0",
        ),
        "pool without driver": (_pool(driver=""), "status.pools[0].driver: Required value"),
        "a pool without a name": (_pool(poolName=""), "status.pools[0].poolName: Required value"),
        "invalid pool name": (_pool(poolName="P"), 'status.pools[0].poolName: Invalid value: "P": segment 0: '),
        "invalid node name": (_pool(nodeName="no node!"), 'status.pools[0].nodeName: Invalid value: "no node!"'),
        "resourceSliceCount 0": (
            _pool(resourceSliceCount=0),
            "status.pools[0].resourceSliceCount: Invalid value: 0: must be greater than or equal to 1",
        ),
        "negative totalDevices": (
            _pool(totalDevices=-1),
            "status.pools[0].totalDevices: Invalid value: -1: must be greater than or equal to 0",
        ),
        "validationError too long": (
            _pool(validationError="x" * 257),
            "status.pools[0].validationError: Too long: may not be more than 256 bytes",
        ),
        "too many pools": (
            {"poolCount": 1001, "pools": [POOL] * 1001},
            "status.pools: Too many: 1001: must have at most 1000 items",
        ),
        "too many conditions": (
            {"poolCount": 0, "conditions": [{**CONDITION, "type": f"T{number}"} for number in range(11)]},
            "status.conditions: Too many: 11: must have at most 10 items",
        ),
        "unsupported condition status": (
            {"poolCount": 0, "conditions": [{**CONDITION, "status": "Yes"}]},
            'status.conditions[0].status: Unsupported value: "Yes"',
        ),
        "invalid condition reason": (
            {"poolCount": 0, "conditions": [{**CONDITION, "reason": "all is counted"}]},
            "a condition reason must start with alphabetic character",
        ),
    },
)
async def test_rejected_statuses(api: Api, status: Object, message: str) -> None:
    await api.create(REQUESTS, request())
    answer = await api.patch(f"{REQUESTS}/r/status", {"status": status})
    assert answer.status == 422
    assert message in answer.message


_COUNTS = {"totalDevices": 4, "availableDevices": 1, "allocatedDevices": 2, "unavailableDevices": 1}


@cases(
    "status, cells",
    {
        "without status": (None, ["-", "-", "-", "-", "-", 0, "Pending", "<none>"]),
        "sums over the pools": (
            {"poolCount": 2, "pools": [{**POOL, **_COUNTS}, {**POOL, **_COUNTS}], "conditions": [CONDITION]},
            ["8", "2", "4", "2", "0", 2, "Complete"],
        ),
        "some of the pools, one incomplete": (
            {"poolCount": 3, "pools": [{**POOL, "validationError": "x"}], "conditions": [CONDITION]},
            ["0", "0", "0", "0", "1", 3, "Complete (1/3 pools)"],
        ),
        "failed": (
            {"poolCount": 0, "conditions": [{**CONDITION, "type": "Failed"}]},
            ["-", "-", "-", "-", "-", 0, "Failed", "<none>"],
        ),
        "condition that is false": (
            {"poolCount": 2, "pools": [{**POOL, **_COUNTS}], "conditions": [{**CONDITION, "status": "False"}]},
            ["4", "1", "2", "1", "0", 2, "Pending", "<none>"],
        ),
    },
)
async def test_table_columns(api: Api, status: Object | None, cells: list[str]) -> None:
    await api.create(REQUESTS, request())
    if status is not None:
        assert (await api.patch(f"{REQUESTS}/r/status", {"status": status})).status == 200
    table = await api.request("GET", REQUESTS, accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
    (row,) = table.body["rows"]
    assert row["cells"][: 2 + len(cells)] == ["r", "test.example.com", *cells]
    definitions = table.body["columnDefinitions"]
    assert [(column["name"], column["type"], column["description"]) for column in definitions[1:]] == [
        ("Driver", "string", "The driver to query pools for."),
        ("Total", "string", "Total number of devices across all pools."),
        ("Available", "string", "Number of available devices across all pools."),
        ("Allocated", "string", "Number of allocated devices across all pools."),
        ("Unavailable", "string", "Number of unavailable devices across all pools."),
        ("Errors", "string", "Number of pools with validation errors."),
        ("Pools", "integer", "Total number of matching pools."),
        ("Status", "string", "Processing status."),
        ("Completed", "string", "Time since the observation completed."),
    ]


async def test_apply_ownership(api: Api) -> None:
    body = {"apiVersion": VERSION, "kind": "ResourcePoolStatusRequest", **request()}
    target = f"{REQUESTS}/r?fieldManager=me"
    applied = await api.request("PATCH", target, json.dumps(body).encode(), "application/apply-patch+yaml")
    assert applied.status == 201
    (entry,) = applied.meta["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:driver": {}}}
    applied_again = await api.request("PATCH", target, json.dumps(body).encode(), "application/apply-patch+yaml")
    assert applied_again.meta["resourceVersion"] == applied.meta["resourceVersion"]


async def test_unknown_fields_are_reported(api: Api) -> None:
    answer = await api.post(f"{REQUESTS}?fieldValidation=Strict", request(defaultPartitionTypeAttribute="a/b"))
    assert answer.status == 400
    assert 'unknown field "spec.defaultPartitionTypeAttribute"' in answer.message, "of v1.37"


def test_protobuf_equals_json() -> None:
    """Fields and numbers as in ``k8s.io/api`` ``testdata/v1.36.0``."""
    pool = {
        "driver": "d",
        "poolName": "p",
        "generation": 9,
        "resourceSliceCount": 8,
        "totalDevices": 4,
        "allocatedDevices": 5,
        "availableDevices": 6,
        "unavailableDevices": 7,
        "nodeName": "n",
        "validationError": "e",
    }
    document = {
        "kind": "ResourcePoolStatusRequest",
        "apiVersion": VERSION,
        "metadata": {"name": "r"},
        "spec": {"driver": "d", "poolName": "p", "limit": 3},
        "status": {"poolCount": 6, "pools": [pool], "conditions": [CONDITION]},
    }
    encoded = protobuf.encode_object(document)
    decoded = protobuf.decode_object(encoded)
    assert decoded["spec"] == document["spec"]
    assert decoded["status"]["pools"] == [pool]
    assert decoded["status"]["poolCount"] == 6


def test_controller_role_requires_the_gate() -> None:
    name = "system:controller:resourcepoolstatusrequest-controller"
    objects = [(resource, obj) for resource, obj in bootstrap_objects((GATE,)) if obj["metadata"]["name"] == name]
    assert [resource for resource, _obj in objects] == ["clusterroles", "clusterrolebindings"]
    assert objects[1][1]["subjects"] == [
        {"kind": "ServiceAccount", "name": "resourcepoolstatusrequest-controller", "namespace": "kube-system"}
    ]
    assert len(list(bootstrap_objects((GATE,)))) == len(list(bootstrap_objects())) + 2
