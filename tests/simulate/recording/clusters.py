"""Objects, and runs with a recorder, for tests of recordings."""

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.sim import Simulation, SimulationOptions, simulate
from pilothouse.simulate.recording import Recorder, Recording

Scenario = Callable[[Simulation, Recorder], Coroutine[Any, Any, None]]


def workload(kind: str, name: str, image: str = "app:1", **spec: Any) -> dict[str, Any]:
    """A workload of ``apps/v1`` in the namespace ``default``."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


async def apply(simulation: Simulation, kind: Kind[Any], body: dict[str, Any], *, exists: bool = False) -> None:
    """Create or replace an object."""
    metadata = body["metadata"]
    namespace = metadata.get("namespace", "")
    if exists:
        await simulation.user.update(kind.raw, metadata["name"], msgspec.json.encode(body), namespace)
    else:
        await simulation.user.create(kind.raw, body, namespace)


def recorded(scenario: Scenario, *, nodes: int = 3, seed: int = 1) -> tuple[Recording, str]:
    """A run, and the digest of its log."""
    result: list[Recording] = []

    async def main(simulation: Simulation) -> None:
        recorder = Recorder(simulation, name="test", seed=seed)
        await scenario(simulation, recorder)
        result.append(recorder.finish())

    digest = simulate(main, seed=seed, options=SimulationOptions(nodes=nodes)).digest
    return result[0], digest
