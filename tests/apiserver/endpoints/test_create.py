"""create: metadata, names, namespaces, bodies (facts from kube-apiserver v1.36.2)."""

import random

import pytest
from tests.apiserver.api import (
    CONFIG_MAPS,
    PODS,
    Answer,
    Api,
    config_map,
    pod,
    replica_set,
)
from tests.tables import cases

from pilothouse.env import Env, virtual


async def _create(api: Api, target: str, body: object, content_type: str = "application/json") -> Answer:
    return await api.request("POST", target, body, content_type)


async def test_system_metadata_is_set_by_the_server(api: Api) -> None:
    body = config_map(
        metadata={
            "uid": "mine",
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "deletionTimestamp": "2001-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 3,
            "selfLink": "x",
            "resourceVersion": "0",
            "managedFields": [{"manager": "m"}],
        }
    )
    answer = await _create(api, CONFIG_MAPS, body)
    assert answer.status == 201
    uid = answer.meta.pop("uid")
    assert len(uid) == 36
    assert answer.meta == {
        "name": "c",
        "namespace": "default",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }


async def test_body_over_three_mebibytes_is_rejected(api: Api) -> None:
    answer = await _create(api, CONFIG_MAPS, config_map(data={"a": "x" * (3 * 1024 * 1024)}))
    assert (answer.status, answer.message) == (413, "Request entity too large: limit is 3145728")


async def test_yaml_is_accepted(api: Api) -> None:
    answer = await _create(api, CONFIG_MAPS, b"metadata: {name: z}\ndata: {a: '1'}\n", "application/yaml")
    assert (answer.status, answer.body["data"]) == (201, {"a": "1"})


async def test_unknown_media_type_is_415(api: Api) -> None:
    answer = await _create(api, CONFIG_MAPS, b"a=b", "application/x-www-form-urlencoded")
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


async def test_generated_name_collisions_are_retried(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes = iter(["aaaaa", "aaaaa", "aaaaa", "bbbbb"])
    monkeypatch.setattr(type(api.env), "name_suffix", lambda _env: next(suffixes))
    created = [await api.create(CONFIG_MAPS, {"metadata": {"generateName": "c-"}}) for _ in range(2)]
    assert [obj["metadata"]["name"] for obj in created] == ["c-aaaaa", "c-bbbbb"]


async def test_name_generation_stops_after_eight_attempts(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(api.env), "name_suffix", lambda _env: "aaaaa")
    await api.create(CONFIG_MAPS, {"metadata": {"generateName": "c-"}})
    answer = await api.post(CONFIG_MAPS, {"metadata": {"generateName": "c-"}})
    assert answer.status == 409
    assert answer.message.endswith("the server was not able to generate a unique name for the object")
    assert answer.headers["retry-after"] == "1"


async def test_existing_name_with_generate_name_is_reported_as_not_generated(api: Api) -> None:

    why = 'configmaps "c" already exists, the server was not able to generate a unique name for the object'
    body = {"metadata": {"name": "c", "generateName": "c-", "finalizers": ["example.com/hold"]}}
    await api.create(CONFIG_MAPS, body)
    answers = [await api.post(CONFIG_MAPS, body)]
    await api.delete(CONFIG_MAPS + "/c")
    assert [answer.message for answer in (*answers, await api.post(CONFIG_MAPS, body))] == [
        why,
        f"object is being deleted: {why}",
    ]


async def test_long_generate_name_is_truncated(api: Api) -> None:
    answer = await _create(api, CONFIG_MAPS, {"metadata": {"generateName": "a" * 70}})
    assert len(answer.meta["name"]) == 63


async def test_duplicate_owner_references_are_removed_with_a_warning(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"}
    answer = await _create(api, CONFIG_MAPS, config_map(metadata={"ownerReferences": [owner, owner]}))
    assert answer.meta["ownerReferences"] == [owner]
    assert "duplicate UID(s) observed: u1" in answer.headers["warning"]


async def test_dry_run_stores_nothing(api: Api) -> None:
    created = await api.post(CONFIG_MAPS + "?dryRun=All", config_map())
    answer = await api.get(CONFIG_MAPS + "/c")
    assert created.status == 201
    assert "uid" in created.meta and "resourceVersion" not in created.meta
    assert answer.status == 404


@cases(
    "mode, code, warning",
    {
        "default: Warn": ("", 201, '299 - "unknown field \\"spec.foo\\""'),
        "Warn": ("?fieldValidation=Warn", 201, '299 - "unknown field \\"spec.foo\\""'),
        "dropped in silence": ("?fieldValidation=Ignore", 201, None),
        "an error": ("?fieldValidation=Strict", 400, None),
        "unsupported value": ("?fieldValidation=Loud", 422, None),
    },
)
async def test_unknown_fields(api: Api, mode: str, code: int, warning: str | None) -> None:
    body = pod()
    body["spec"]["foo"] = 1
    answer = await _create(api, PODS + mode, body)
    assert answer.status == code
    assert answer.headers.get("warning") == warning
    if mode.endswith("Strict"):
        assert (
            answer.message
            == 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"'
        )


def test_name_suffixes_come_from_the_env() -> None:
    """Equal seeds give equal names."""

    async def main(env: Env) -> str:
        return str((await Api(env).create(CONFIG_MAPS, {"metadata": {"generateName": "c-"}}))["metadata"]["name"])

    random.seed()
    assert virtual.run(main) == virtual.run(main)


async def test_node_image_without_names_has_null(api: Api) -> None:
    """The list has no omitempty (k8s.io/api v0.36, ContainerImage)."""
    images = [{"sizeBytes": 1}, {"names": [], "sizeBytes": 2}, {"names": ["a"]}]
    assert (await api.create("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"images": images}}))["status"][
        "images"
    ] == [
        {"names": None, "sizeBytes": 1},
        {"names": None, "sizeBytes": 2},
        {"names": ["a"]},
    ]


async def test_resource_quantities_are_rounded_to_milli(api: Api) -> None:
    """``SetDefaults_ResourceList`` rounds them up, of pods, nodes, volumes and quotas alike (v1.36)."""
    asking = pod()
    asking["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "0.0001"}}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1000u"}}}
    created = await api.create(PODS, asking)
    node = await api.create("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1500u"}}})
    created_quota = await api.create("/api/v1/namespaces/default/resourcequotas", quota)
    assert created["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1m"}}
    assert node["status"]["capacity"] == {"cpu": "2m"}
    assert created_quota["spec"]["hard"] == {"requests.cpu": "1m"}


async def test_volume_claim_template_keeps_its_status(api: Api) -> None:
    status = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}, "status": status}
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[index]
    spec = {**replica_set()["spec"], "serviceName": "s", "volumeClaimTemplates": [claim]}
    kept = (
        await api.create("/apis/apps/v1/namespaces/default/statefulsets", {"metadata": {"name": "w"}, "spec": spec})
    )["spec"]["volumeClaimTemplates"][0]["status"]
    assert kept == {"phase": "Pending", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}


async def test_invalid_resource_version_is_ignored(api: Api) -> None:
    assert (await api.post(CONFIG_MAPS, config_map(metadata={"resourceVersion": "abc"}))).status == 201
