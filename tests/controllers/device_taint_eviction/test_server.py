"""The server defaults ``timeAdded`` of device taints (``SetDefaults_DeviceTaint``)."""

from tests.controllers.device_taint_eviction.test_controller import SLICES, TAINT, devices
from tests.controllers.node_world import World, wait_for_sync


async def test_time_added_is_defaulted(world: World) -> None:
    taint = {**TAINT, "key": "given", "timeAdded": "2020-01-01T00:00:00Z"}
    await devices(world, gpu_0=[TAINT, taint])
    (device,) = (await world.must_get(f"{SLICES}/slice"))["spec"]["devices"]
    began = device["taints"][0]["timeAdded"]
    assert device["taints"][1] == taint
    await wait_for_sync(60)
    await devices(world, gpu_0=[device["taints"][0], TAINT])
    (device,) = (await world.must_get(f"{SLICES}/slice"))["spec"]["devices"]
    assert device["taints"][0]["timeAdded"] == began
    assert device["taints"][1]["timeAdded"] > began
