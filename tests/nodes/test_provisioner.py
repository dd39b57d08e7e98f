"""The simulated provisioner together with the binder, against the embedded API server, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import Doc, World, wait_for_sync
from tests.controllers.persistentvolume_binder.world import (
    CLAIMS,
    CLASSES,
    VOLUMES,
    create_claim,
    create_class,
    phases,
    remove,
    unprotect,
)

from pilothouse.client import Client
from pilothouse.client.interceptor import Rule, conflict, lose_answer
from pilothouse.controllers.volumes.persistentvolume_binder import DESCRIPTOR
from pilothouse.env import Env
from pilothouse.nodes.provisioner import PROVISIONER, Provisioner
from pilothouse.runtime import InformerFactory

EXTERNAL = "external-provisioner.volume.kubernetes.io/finalizer"
PROTECTION = "kubernetes.io/pv-protection"


@pytest.fixture
async def world(env: Env) -> AsyncIterator[World]:
    """A cluster with the binder and the provisioner."""
    async with node_world.world(env) as running:
        await running.start(DESCRIPTOR)
        client = Client(running.faults, env)
        informers = InformerFactory(client, env)
        provisioner = Provisioner(env, client=client, informers=informers)
        informers.start(running._group)
        running._group.start(provisioner.run(), name="provisioner")
        await provisioner.ready.wait()
        yield running


async def only_volume(world: World) -> Doc:
    (volumes,) = (await world.must_get(VOLUMES))["items"]
    volume: Doc = volumes
    return volume


async def test_there_is_a_default_class_and_claims_are_bound(world: World) -> None:
    class_ = await world.must_get(f"{CLASSES}/standard")
    assert class_["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    created = await create_claim(world, size="3Gi", accessModes=["ReadWriteMany"], volumeMode="Block")
    await wait_for_sync()
    volume = await only_volume(world)
    assert await phases(world) == {"c": "Bound", volume["metadata"]["name"]: "Bound"}
    assert volume["metadata"]["name"] == f"pvc-{created['metadata']['uid']}"
    assert volume["metadata"]["finalizers"] == [EXTERNAL, PROTECTION]
    spec = volume["spec"]
    assert spec["csi"] == {"driver": PROVISIONER, "volumeHandle": volume["metadata"]["name"]}
    assert (spec["capacity"], spec["accessModes"], spec["volumeMode"]) == (
        {"storage": "3Gi"}, ["ReadWriteMany"], "Block",
    )  # fmt: skip
    assert (spec["storageClassName"], spec["persistentVolumeReclaimPolicy"]) == ("standard", "Delete")
    reasons = [e["reason"] for e in (await world.must_get("/api/v1/events"))["items"]]
    assert sorted(set(reasons)) == ["ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"]


async def test_a_default_class_of_a_user_is_kept(env: Env) -> None:
    async with node_world.world(env) as world:
        await create_class(world)
        client = Client(world.faults, world.env)
        informers = InformerFactory(client, world.env)
        provisioner = Provisioner(world.env, client=client, informers=informers)
        informers.start(world._group)
        world._group.start(provisioner.run(), name="provisioner")
        await provisioner.ready.wait()
        assert [item["metadata"]["name"] for item in (await world.must_get(CLASSES))["items"]] == ["gold"]


async def test_a_volume_is_deleted_with_its_claim(world: World) -> None:
    await create_claim(world)
    await wait_for_sync()
    path = f"{VOLUMES}/{(await only_volume(world))['metadata']['name']}"
    await remove(world, f"{CLAIMS}/c")
    await wait_for_sync()
    volume = await world.must_get(path)
    assert "deletionTimestamp" in volume["metadata"]
    assert volume["metadata"]["finalizers"] == [PROTECTION], "what is left is another's"
    await unprotect(world, path, PROTECTION)
    assert await world.get(path) is None


async def test_a_volume_deleted_first_remains_until_its_claim_is_removed(world: World) -> None:
    await create_claim(world)
    await wait_for_sync()
    path = f"{VOLUMES}/{(await only_volume(world))['metadata']['name']}"
    await world.delete(path)
    await wait_for_sync(20)
    assert EXTERNAL in (await world.must_get(path))["metadata"]["finalizers"]
    assert (await phases(world))["c"] == "Bound"
    await remove(world, f"{CLAIMS}/c")
    await wait_for_sync()
    assert (await world.must_get(path))["metadata"]["finalizers"] == [PROTECTION]


async def test_volumes_with_policy_retain_are_kept(world: World) -> None:
    await create_class(world, "kept", PROVISIONER, reclaimPolicy="Retain")
    await create_claim(world, storageClassName="kept")
    await wait_for_sync()
    volume = await only_volume(world)
    assert volume["metadata"]["finalizers"] == [PROTECTION]
    await remove(world, f"{CLAIMS}/c")
    await wait_for_sync(60)
    volume = await only_volume(world)
    assert (volume["status"]["phase"], "deletionTimestamp" in volume["metadata"]) == ("Released", False)
    path = f"{VOLUMES}/{volume['metadata']['name']}"
    await world.merge(path, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
    await wait_for_sync()
    assert "deletionTimestamp" in (await world.must_get(path))["metadata"], "somebody changed their mind"


async def test_a_volume_is_provisioned_for_the_selected_node(world: World) -> None:
    await create_class(world, "local", PROVISIONER, volumeBindingMode="WaitForFirstConsumer", mountOptions=["ro"])
    await world.node("n", labels={"kubernetes.io/hostname": "host-n"})
    await create_claim(world, storageClassName="local")
    await wait_for_sync(20)
    assert (await world.must_get(VOLUMES))["items"] == [], "nobody has said where"
    annotation = "volume.kubernetes.io/selected-node"
    await world.merge(f"{CLAIMS}/c", {"metadata": {"annotations": {annotation: "gone"}}})
    await wait_for_sync()
    claim = await world.must_get(f"{CLAIMS}/c")
    assert annotation not in claim["metadata"]["annotations"], "the scheduler is to choose another one"
    (messages,) = await world.events("ProvisioningFailed")
    assert messages.endswith('"local": failed to get target node: node "gone" not found')
    await world.merge(f"{CLAIMS}/c", {"metadata": {"annotations": {annotation: "n"}}})
    await wait_for_sync()
    spec = (await only_volume(world))["spec"]
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    expected = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-n"]}
    assert term == {"matchExpressions": [expected]}
    assert spec["mountOptions"] == ["ro"]
    assert (await phases(world))["c"] == "Bound"


async def test_allowed_topologies_of_class(world: World) -> None:
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]
    await create_class(world, "zonal", PROVISIONER, allowedTopologies=terms, parameters={"fast": "yes"})
    await create_claim(world, storageClassName="zonal")
    await wait_for_sync()
    spec = (await only_volume(world))["spec"]
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
    assert spec["csi"]["volumeAttributes"] == {"fast": "yes"}


async def test_a_volume_is_provisioned_once_even_if_the_response_is_lost(world: World) -> None:
    world.faults.add(Rule(lose_answer(), verb="create", resource="persistentvolumes", times=1))
    world.faults.add(Rule(conflict(), verb="update", resource="persistentvolumes", times=2))
    await create_claim(world)
    await wait_for_sync(40)
    volume = await only_volume(world)
    assert volume["status"]["phase"] == "Bound"
    await remove(world, f"{CLAIMS}/c")
    await wait_for_sync(20)
    assert (await only_volume(world))["metadata"]["finalizers"] == [PROTECTION]


async def test_claims_of_others_are_left_alone(world: World) -> None:
    await create_class(world)
    await create_claim(world, storageClassName="gold")
    await asyncio.sleep(40)
    volume: list[Any] = (await world.must_get(VOLUMES))["items"]
    assert volume == []
