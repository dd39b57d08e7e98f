"""Failed tests and simulations include an explanation."""

import pytest
from tests.why.cluster import Cluster, deployment

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.sim import Invariant, Simulation, SimulationFailed, simulate
from pilothouse.sim.invariants import Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change
from pilothouse.testing import Timeout


async def test_timeout_of_a_test_has_the_root_cause(cluster: Cluster) -> None:
    await cluster.deployment(replicas=2)
    (name, _other) = await cluster.pods()
    await cluster.scale("web", 0)
    with pytest.raises(Timeout) as raised:
        await cluster.plane.wait_for("v1", "Pod", name, lambda pod: pod is not None)
    assert "why:\n" in str(raised.value)
    assert "deployment/web changed: spec.replicas: 2 -> 0, by kubernetes-admin" in str(raised.value)


class _NoPods(Invariant):
    def committed(self, change: Change, origin: Origin | None) -> None:
        if change.key.startswith("/pods/"):
            raise Violation(f"{change.key} is a pod, sent by {origin}")


def test_invariant_violation_has_the_cause_of_the_write() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.user.create(DEPLOYMENTS, deployment("web"), "default")
        await simulation.run_until_idle()

    with pytest.raises(SimulationFailed) as raised:
        simulate(scenario, invariants=lambda: (_NoPods(),))
    (text,) = str(raised.value).split("why it was written:\n")[1:]
    lines = [line.partition("  ")[2] for line in text.splitlines()]
    assert lines[0].endswith("was created, by replicaset-controller")
    assert any("deployment/web was created, by admin" in line for line in text.splitlines())
