"""Pods of many kinds on thirty nodes, with the result as text: ``python -m tests.scheduler.scenario SEED``.

The hash seed must not change it (``test_determinism``).
"""

import asyncio
import sys
from typing import Any

import msgspec
from tests.nodes.world import World, world
from tests.scheduler.build import HOSTNAME, ZONE, anti_affinity, preferred, spread, term

from pilothouse.api.core import NODES, PODS
from pilothouse.client import merge_patch
from pilothouse.client.interceptor import Rule, delay
from pilothouse.env import Env
from pilothouse.env.virtual import run

KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"topologySpreadConstraints": [spread(ZONE), spread(HOSTNAME, 3, soft=True)]},
    {"affinity": anti_affinity(term(app="web"))},
    {"affinity": preferred("podAntiAffinity", 5, term(ZONE, app="web", namespaceSelector={}))},
)


async def play(w: World) -> str:
    """The final node of each pod, and all events in order."""
    w.scheduler_faults.add(Rule(delay(0.0, 2.0), verb="create", resource="pods", subresource="binding"))
    body = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    path, headers = "/apis/scheduling.k8s.io/v1/priorityclasses", {"content-type": "application/json"}
    await w.client.request("POST", path, body=msgspec.json.encode(body), headers=headers)
    for number in range(30):
        name = f"n{number}"
        await w.create_node(name, cpu="4")
        labels = {HOSTNAME: name, ZONE: f"z{number % 3}"}
        await w.client.patch(NODES.raw, name, merge_patch({"metadata": {"labels": labels}}))
    await asyncio.gather(
        *[
            w.create_pod(f"p{number}", cpu="1", metadata={"labels": {"app": "web"}}, **KINDS[number % len(KINDS)])
            for number in range(100)
        ]
    )
    await asyncio.sleep(30)
    await asyncio.gather(*[w.create_pod(f"high{number}", cpu="4", priorityClassName="high") for number in range(20)])
    await asyncio.sleep(60)
    pods = (await w.client.list(PODS, "default")).items
    lines = [f"{pod.metadata.name} {pod.spec.node_name}" for pod in pods]
    lines += [f"{e.involved_object.name} {e.reason} {e.count} {e.message}" for e in await w.events()]
    return "\n".join(lines)


def main() -> None:
    async def scenario(env: Env) -> str:
        async with world(env, scheduler=True) as w:
            return await play(w)

    print(run(scenario, seed=int(sys.argv[1])))


if __name__ == "__main__":
    main()
