"""Unreported bugs of upstream's DaemonSet controller, with and without the protection against them."""

import asyncio
from typing import Any

import pytest
from tests.scenarios.users import NAMESPACE
from tests.scenarios.variants import broken_without

from pilothouse.client.interceptor import Rule, delay, fail
from pilothouse.controllers.workloads.daemonset.pod_events import DaemonEvents
from pilothouse.runtime import UidTrackingExpectations
from pilothouse.sim import Simulation
from pilothouse.simulate.bugs.daemonsets import AGENT, OPTIONS, Owner, invariants

pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=invariants)


@broken_without(
    (UidTrackingExpectations, "awaited_by", lambda _self, _object_key: None), fails="after 30 s agent is on"
)
async def test_pod_adopted_and_deleted_during_a_watch_outage(simulation: Simulation) -> None:
    """Its deletion is delivered as that of an orphan, so the deletion expectation is not fulfilled: for five minutes no
    pod is created, and afterwards nothing enqueues the key. Upstream has this bug."""
    user = Owner(simulation.user)
    await user.create()
    await user.until_on(0, 1, 2, 3)
    spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": "pause:0"}]}
    slow = simulation.add_rule(Rule(delay(2.0), verb="patch", resource="pods"))
    await user.request(
        "POST", f"{NAMESPACE}/pods", {"metadata": {"name": "loose", "labels": {"app": "agent"}}, "spec": spec}
    )
    await asyncio.sleep(1.0)
    # The orphan was observed; its adoption, deletion as a surplus pod, and removal are not.
    with simulation.held_watches("pods"):
        await asyncio.sleep(10.0)
        assert await user.nodes_with_pods() == [f"node-{number}" for number in range(4)]
        simulation.end_watches("pods", "gone")
    simulation.remove_rule(slow)
    victim = (await user.pods())[0]["metadata"]["name"]
    await user.request("DELETE", f"{NAMESPACE}/pods/{victim}", {"gracePeriodSeconds": 0})
    await asyncio.sleep(1.0)
    await user.until_on(0, 1, 2, 3)
    await simulation.run_until_idle()


enqueue = DaemonEvents._enqueue_owner


def delete_history_of_owner_reference(self: DaemonEvents, revision: Any, _final_state_unknown: bool) -> None:
    reference = revision.metadata.owner_references[0]
    enqueue(self, revision.metadata.namespace, reference)


@broken_without((DaemonEvents, "delete_history", delete_history_of_owner_reference), fails="has no revision")
async def test_recreated_set_has_its_own_revision(simulation: Simulation) -> None:
    """It finds the revision of its predecessor under its own revision's name. The garbage collector deletes that
    revision, and upstream's controller has no history until another event."""
    user = Owner(simulation.user)
    await user.create()
    await user.until_on(0, 1, 2, 3)
    slow = simulation.add_rule(Rule(fail(500), verb="delete", resource="controllerrevisions.apps"))
    await user.request("DELETE", AGENT)
    await user.create()
    await user.until_on(0, 1, 2, 3)
    await asyncio.sleep(5.0)
    simulation.remove_rule(slow)
    await simulation.run_until_idle()
