"""Responses to writes above the store's quota, and of objects that are too large."""

import pytest
from tests.apiserver.api import CONFIG_MAPS, JSON_PATCH, PODS, Api, config_map, pod

from pilothouse.env import Env
from pilothouse.storage import MemoryStore

pytestmark = pytest.mark.not_on("etcd", reason="etcd has a quota of its own")


async def test_a_full_store_answers_like_etcd_and_deletes(env: Env) -> None:
    api = Api(env, store=MemoryStore(env, quota=1_000_000))
    await api.create(CONFIG_MAPS, config_map("a", data={"a": "x" * 900_000}))
    refused = await api.post(CONFIG_MAPS, config_map("b", data={"a": "x" * 200_000}))
    assert refused.status == 500
    assert refused.message == "etcdserver: mvcc: database space exceeded"
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 200
    assert (await api.delete(f"{CONFIG_MAPS}/a")).status == 200
    assert (await api.post(CONFIG_MAPS, config_map("b", data={"a": "x" * 200_000}))).status == 201


async def test_an_object_does_not_grow_by_patches(api: Api) -> None:
    """Each of the objects is smaller than the request limit."""
    await api.create(PODS, pod())
    patches = [
        [{"op": "add", "path": "/status/conditions", "value": [{"type": "a", "status": "True"}]}],
        *(
            [{"op": "add", "path": "/status/conditions/-", "value": {"type": f"t{number}", "message": "x" * 1_000_000}}]
            for number in range(4)
        ),
    ]
    _, *answers = [await api.patch(f"{PODS}/p/status", patch, JSON_PATCH) for patch in patches]
    assert [answer.status for answer in answers] == [200, 200, 200, 500]
    assert answers[-1].message == "etcdserver: request is too large"
