"""Ready and available replicas, and changes by time alone."""

from tests.controllers.replicaset.world import World


async def test_ready_pods_are_available_without_min_ready_seconds(world: World) -> None:
    await world.create_set(2)
    await world.wait_for_sync()
    await world.report((await world.owned())[0])
    await world.wait_for_sync()
    status = await world.status()
    assert (status["readyReplicas"], status["availableReplicas"]) == (1, 1)


async def test_pods_become_available_after_min_ready_seconds_without_an_event(world: World) -> None:
    await world.create_set(2, spec={"minReadySeconds": 30})
    await world.wait_for_sync()
    first, second = await world.owned()
    await world.report(first)
    await world.wait_for_sync(10)
    await world.report(second)
    await world.wait_for_sync(10)
    assert "availableReplicas" not in await world.status()
    await world.wait_for_sync(12)
    assert (await world.status())["availableReplicas"] == 1
    await world.wait_for_sync(10)
    status = await world.status()
    assert (status["readyReplicas"], status["availableReplicas"]) == (2, 2)


async def test_unready_pod_is_immediately_not_available(world: World) -> None:
    await world.create_set(1, spec={"minReadySeconds": 5})
    await world.wait_for_sync()
    [name] = await world.owned()
    await world.report(name)
    await world.wait_for_sync(10)
    assert (await world.status())["availableReplicas"] == 1
    await world.report(name, ready=False)
    await world.wait_for_sync(0.1)
    status = await world.status()
    assert "readyReplicas" not in status
    assert "availableReplicas" not in status
