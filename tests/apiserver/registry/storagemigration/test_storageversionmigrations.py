"""StorageVersionMigrations, behind a feature gate; rows mirror ``pkg/apis/storagemigration/validation`` of v1.36."""

import asyncio
from typing import Any

from tests.apiserver.api import Api, Object
from tests.controllers.storage_version_migrator.widgets import (
    DEFINITION,
    MIGRATIONS,
    definition,
    stored_version,
    versions,
    widget,
    widgets,
)
from tests.custom_resources import DEFINITIONS
from tests.stores import new_store
from tests.tables import cases

from pilothouse.api.wire import Request
from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects
from pilothouse.apiserver.resources import BEHIND_GATES
from pilothouse.apiserver.serializers import protobuf
from pilothouse.env import Env, TaskGroup

GATE = "StorageVersionMigrator"
GATE_ON = ServerOptions(gates=(GATE,))
ROLE = "system:controller:storage-version-migrator-controller"
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
DOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def migration(resource: str = "widgets", group: str = "example.com") -> Object:
    return {"metadata": {"name": "m"}, "spec": {"resource": {"group": group, "resource": resource}}}


async def test_not_served_without_the_gate(api: Api) -> None:
    assert [(await api.get(path)).status for path in (MIGRATIONS, "/apis/storagemigration.k8s.io/v1beta1")] == [
        404,
        404,
    ]


async def test_served_and_printed_with_the_gate(env: Env) -> None:
    api = Api(env, GATE_ON)
    listed = (await api.get("/apis/storagemigration.k8s.io/v1beta1")).body
    created = (await api.post(MIGRATIONS, {**migration(), "status": {"resourceVersion": "5"}})).body
    fetched = (await api.get(f"{MIGRATIONS}/m")).body
    assert [(resource["name"], resource["namespaced"]) for resource in listed["resources"]] == [
        ("storageversionmigrations", False),
        ("storageversionmigrations/status", False),
    ]
    assert created == fetched
    assert (created["kind"], created["spec"], created["status"]) == ("StorageVersionMigration", migration()["spec"], {})


@cases(
    "resource, group, expected",
    {
        "resource and group": ("non-empty", "non-empty", ""),
        "resource of the core group": ("secrets", "", ""),
        "neither resource nor group": (
            "",
            "",
            "spec.resource.resource: Required value: resource is required to be set",
        ),
        "missing resource": (
            "",
            "example.com",
            "spec.resource.resource: Required value: resource is required to be set",
        ),
        "invalid resource": (".", "example.com", f'spec.resource.resource: Invalid value: ".": {LABEL}'),
        "invalid group": ("widgets", "-", f'spec.resource.group: Invalid value: "-": {DOMAIN}'),
    },
)
async def test_spec_validation(env: Env, resource: str, group: str, expected: str) -> None:
    api = Api(env, GATE_ON)
    answer = await api.post(MIGRATIONS, migration(resource, group))
    if not expected:
        assert answer.status == 201
        return
    assert answer.status == 422
    assert answer.message == f'StorageVersionMigration.storagemigration.k8s.io "m" is invalid: {expected}'


async def test_spec_is_immutable(env: Env) -> None:
    api = Api(env, GATE_ON)
    await api.post(MIGRATIONS, migration())
    path = f"{MIGRATIONS}/m"
    labeled = await api.patch(path, {"metadata": {"labels": {"a": "b"}}})
    changed = await api.patch(path, {"spec": {"resource": {"group": "new.example.com"}}})
    unconditional = await api.put(path, migration())
    assert labeled.status == 200
    assert changed.status == 422
    assert "spec: Invalid value: " in changed.message
    assert changed.message.endswith("field is immutable")
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in unconditional.message


def condition(type_: str, status: str = "True", **changes: Any) -> Object:
    return {
        "type": type_,
        "status": status,
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        **changes,
    }


RUNNING, SUCCEEDED, FAILED = condition("Running"), condition("Succeeded"), condition("Failed")
NOT_RUNNING = condition("Running", "False")


@cases(
    "old_status, status, expected",
    {
        "the first status": (("", []), ("123", [RUNNING]), ""),
        "Running without resource version": (("", []), ("", [RUNNING]), ""),
        "from running to succeeded": (("123", [RUNNING]), ("123", [NOT_RUNNING, SUCCEEDED]), ""),
        "Succeeded while still Running": (("123", [RUNNING]), ("123", [RUNNING, SUCCEEDED]), ""),
        "from running to failed": (("123", [RUNNING]), ("123", [NOT_RUNNING, FAILED]), ""),
        "unchanged Succeeded": (("123", [SUCCEEDED]), ("123", [SUCCEEDED]), ""),
        "unchanged Failed": (("123", [FAILED]), ("123", [FAILED]), ""),
        "changed resource version": (
            ("123", [RUNNING]),
            ("456", [RUNNING]),
            'status.resourceVersion: Invalid value: "456": field is immutable',
        ),
        "invalid resource version": (
            ("", []),
            ("abc", [RUNNING]),
            'status.resourceVersion: Invalid value: "abc": resource version is not well formed: abc',
        ),
        "succeeded and failed": (
            ("123", [RUNNING]),
            ("123", [SUCCEEDED, FAILED]),
            "Both success and failed conditions cannot be true at the same time",
        ),
        "no longer succeeded": (
            ("123", [SUCCEEDED]),
            ("123", [condition("Succeeded", "False")]),
            "Success condition cannot be set to false once it is true",
        ),
        "no longer failed": (("123", [FAILED]), ("123", []), "Failed condition cannot be set to false once it is true"),
        "unsupported condition status": (
            ("", []),
            ("", [condition("Running", "Perhaps")]),
            'status.conditions[0].status: Unsupported value: "Perhaps": supported values: "False", "True", "Unknown"',
        ),
        "missing reason": (
            ("", []),
            ("", [condition("Running", reason="")]),
            "status.conditions[0].reason: Required value",
        ),
        "invalid reason": (
            ("", []),
            ("", [condition("Running", reason="in progress")]),
            "a condition reason must start with alphabetic character",
        ),
        "missing transition time": (
            ("", []),
            ("", [condition("Running", lastTransitionTime=None)]),
            "status.conditions[0].lastTransitionTime: Required value",
        ),
        "message too long": (
            ("", []),
            ("", [condition("Running", message="m" * 32769)]),
            "status.conditions[0].message: Too long: may not be more than 32768 bytes",
        ),
    },
)
async def test_status_transitions(env: Env, old_status: Any, status: Any, expected: str) -> None:
    api = Api(env, GATE_ON)
    migration_object = (await api.post(MIGRATIONS, migration())).body
    for version, conditions in (old_status, status):
        migration_object["status"] = {"conditions": conditions, **({"resourceVersion": version} if version else {})}
        answer = await api.put(f"{MIGRATIONS}/m/status", migration_object)
        migration_object = answer.body
    assert (answer.status, expected in answer.message) == ((200, True) if not expected else (422, True)), answer.message


def test_controller_role_requires_the_gate() -> None:
    names = {obj["metadata"]["name"] for _resource, obj in bootstrap_objects()}
    assert ROLE not in names
    added = [obj for _resource, obj in bootstrap_objects((GATE,)) if obj["metadata"]["name"] not in names]
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in added] == [
        ("ClusterRole", ROLE),
        ("ClusterRoleBinding", ROLE),
    ]
    assert added[1]["roleRef"]["name"] == ROLE


def test_protobuf_equals_json() -> None:
    condition = {
        "type": "Running",
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "Running",
        "message": "m",
    }
    document = {
        "kind": "StorageVersionMigration",
        "apiVersion": "storagemigration.k8s.io/v1beta1",
        **migration(),
        "status": {"conditions": [condition], "resourceVersion": "5"},
    }
    decoded = protobuf.decode_object(protobuf.encode_object(document))
    assert (decoded["spec"], decoded["status"]) == (document["spec"], document["status"])


def test_gates_of_resources_exist() -> None:
    from pilothouse.controllermanager.feature_gates import known_gates

    assert BEHIND_GATES.keys() <= known_gates().keys()


async def test_api_service_exists_with_the_gate(env: Env) -> None:
    store = new_store(env)

    async def registered(*gates: str) -> list[int]:
        server = ApiServer(env, store, options=ServerOptions(gates=gates))
        client = server.transport("admin", ("system:masters",))
        async with TaskGroup("server") as group:
            group.start(server.run(), name="server")
            await asyncio.sleep(1.0)
            path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.storagemigration.k8s.io"
            answers = [await client.request(Request("GET", target)) for target in (path, MIGRATIONS)]
            group.cancel()
        return [answer.status for answer in answers]

    assert (await registered(GATE), await registered()) == ([200, 200], [404, 404])


CONFIGURATION = "application/apply-patch+yaml"


async def test_no_op_write_stores_the_current_storage_version(api: Api) -> None:
    path = widgets("v1")
    await api.post(DEFINITIONS, definition())
    created = (await api.post(path, widget("a"))).body
    writes: list[tuple[str, bool]] = []

    async def write(uid: str = created["metadata"]["uid"]) -> None:
        revision = (await api.get(f"{path}/a")).meta["resourceVersion"]
        meta = {"uid": uid, "resourceVersion": revision}
        config = {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": meta}
        answer = await api.patch(f"{widgets('v2')}/a?fieldManager=me", config, CONFIGURATION)
        assert answer.status == 200, answer.message
        assert answer.meta["generation"] == 1
        assert [entry["manager"] for entry in answer.meta["managedFields"]] == ["test"]
        record = api.store.list("example.com/widgets/").records[0]
        writes.append((stored_version(record.value), str(record.revision) != revision))

    await write()
    await api.patch(DEFINITION, {"spec": {"versions": versions("v2")}})
    await write()
    await write()
    assert writes == [("v1", False), ("v2", True), ("v2", False)]


async def test_apply_with_a_stale_uid_or_resource_version_is_a_conflict(api: Api) -> None:
    path = f"{widgets('v1')}/a?fieldManager=me"
    await api.post(DEFINITIONS, definition())
    created = (await api.post(widgets("v1"), widget("a"))).meta
    meta = {"uid": created["uid"], "resourceVersion": created["resourceVersion"]}
    config = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta}
    await api.delete(f"{widgets('v1')}/a")
    deleted = await api.patch(path, config, CONFIGURATION)
    await api.post(widgets("v1"), widget("a"))
    recreated = await api.patch(path, config, CONFIGURATION)
    assert [deleted.status, recreated.status] == [409, 409]
