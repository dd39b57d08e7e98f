"""``PodBehaviour``: image pulls of simulated pods."""

import asyncio

from pilothouse.api.core import EVENTS, NODES, PODS
from pilothouse.env import Env
from pilothouse.sim import SimulationOptions, running
from pilothouse.simulate.behaviour import PodBehaviour
from pilothouse.simulate.scenario.scalars import Duration
from pilothouse.simulate.scenario.schema import PodRule, Spread


async def test_events_of_image_pulls_are_the_kubelets(env: Env) -> None:
    """Kubelet v1.36 ``pkg/kubelet/images/image_manager.go``."""
    rules = [PodRule(image_pull=Spread(median=Duration(20.5)))]
    options = SimulationOptions(nodes=1, derive_behaviour=PodBehaviour(env, rules))
    message = 'Container image "web:1" already present on machine and can be accessed by the pod'
    async with running(env, options) as simulation:
        node = (await simulation.user.list(NODES)).items[0].metadata.name
        started_at = env.now()
        for name, images in (("first", ("web", "web", "web:404")), ("second", ("web:1", "web"))):
            containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {"nodeName": node, "containers": containers},
            }
            await simulation.user.create(PODS.raw, body, "default")
            await asyncio.sleep(40)
        events = (await simulation.user.list(EVENTS, "default")).items
    pulls = [
        (e.involved_object.name, e.involved_object.field_path[-3:-1], e.reason, e.message)
        for e in events
        if e.reason in ("Pulling", "Pulled") and "404" not in e.message
    ]
    took = "in 20.5s (20.5s including waiting). Image size: 0 bytes."
    assert sorted(pulls) == sorted([
        ("first", "c0", "Pulling", 'Pulling image "web:latest"'),
        ("first", "c0", "Pulled", f'Successfully pulled image "web:latest" {took}'),
        ("first", "c1", "Pulled", message.replace("web:1", "web")),
        ("second", "c0", "Pulling", 'Pulling image "web:1"'),
        ("second", "c0", "Pulled", f'Successfully pulled image "web:1" {took}'),
        ("second", "c1", "Pulled", message.replace("web:1", "web")),
    ])  # fmt: skip
    times = [next(e.first_timestamp for e in events if e.message.startswith(text)) for text in ("Pulling", "Success")]
    began_pulling, pulled = [(at - started_at).total_seconds() for at in times if at is not None]
    assert began_pulling < 2, "reported when it begins"
    assert 20 <= pulled - began_pulling <= 21
