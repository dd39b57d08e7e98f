"""The cost of a change does not depend on the size of the cluster (kubernetes#121474: hours behind at 5,000 nodes)."""

import pytest
from tests.controllers.api_world import NODES, PODS
from tests.controllers.daemonset.world import AGENT, controlled

from pilothouse.controllers.workloads.daemonset import placement
from pilothouse.controllers.workloads.daemonset.controller import DaemonSetController
from pilothouse.controllers.workloads.daemonset.node_to_daemon_pods import NodeToDaemonPods
from pilothouse.env import Env

SETS = ("agent", "broom", "crane")


class SyncCounts:
    """How often the controller synced a DaemonSet, or one of its nodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = self.surveys = self.placements = 0
        survey, act, decide = (
            NodeToDaemonPods._evaluate,
            DaemonSetController._sync_daemon_set,
            placement.decide_placement,
        )

        def counting_survey(node_pods: NodeToDaemonPods, *args: object) -> None:
            self.surveys += 1
            survey(node_pods, *args)  # type: ignore[arg-type]  # handed through

        async def counting_act(controller: DaemonSetController, *args: object) -> object:
            self.syncs += 1
            return await act(controller, *args)  # type: ignore[arg-type]  # handed through

        def counting_decide(*args: object) -> object:
            self.placements += 1
            return decide(*args)  # type: ignore[arg-type]  # handed through

        monkeypatch.setattr(NodeToDaemonPods, "_evaluate", counting_survey)
        monkeypatch.setattr(DaemonSetController, "_sync_daemon_set", counting_act)
        monkeypatch.setattr(placement, "decide_placement", counting_decide)

    def take(self) -> tuple[int, int, int]:
        """Syncs, surveys and placements since the last time."""
        counts = self.syncs, self.surveys, self.placements
        self.syncs = self.surveys = self.placements = 0
        return counts


async def costs(env: Env, monkeypatch: pytest.MonkeyPatch, nodes: int) -> dict[str, tuple[int, int, int]]:
    """The number of syncs per change with this many nodes and three DaemonSets."""
    result: dict[str, tuple[int, int, int]] = {}
    async with controlled(env, nodes=nodes) as world:
        world.kubelets = False
        for name in SETS:
            await world.create_set(name)
        await world.wait_for_sync(10)
        for name in SETS:
            assert len(await world.pods(owner=name)) == nodes
        counts = SyncCounts(monkeypatch)
        before = len(world.requests)

        async def note(message: str) -> None:
            await world.wait_for_sync(2)
            result[message] = counts.take()

        for number in range(nodes):
            body = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}
            await world.merge(f"{NODES}/n{number}/status", body)
        await note("a heartbeat of every node")
        await world.merge(f"{NODES}/n1", {"metadata": {"labels": {"some": "label"}}})
        await note("a label of one node that nobody asks for")
        assert len(world.requests) == before, "nothing was sent"
        await world.taint("n1", ("special", "NoExecute"))
        await note("a taint of one node that sends three pods away")
        await world.taint("n1")
        for pod in (await world.request("GET", PODS))["items"]:
            if "deletionTimestamp" in pod["metadata"]:
                await world.remove(pod["metadata"]["name"])
        await note("and comes off again")
        victim = (await world.pods())[0]["metadata"]["name"]
        await world.bind(victim, "n0")
        await world.report(victim)
        await note("one pod that starts")
        await world.merge(AGENT, {"metadata": {"annotations": {"some": "thing"}}})
        await note("a DaemonSet that changes without its template")
    monkeypatch.undo()
    return result


async def test_cost_of_a_change_does_not_grow_with_the_number_of_nodes(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = await costs(env, monkeypatch, 20), await costs(env, monkeypatch, 200)
    assert few == many
    assert many["a heartbeat of every node"] == (0, 0, 0)
    syncs, surveys, placements = many["a label of one node that nobody asks for"]
    assert (syncs, placements) == (0, 3)
    syncs, surveys, placements = many["a taint of one node that sends three pods away"]
    assert placements == 3
    # Each of the three DaemonSets: the taint, the deletion, the status.
    assert syncs <= 3 * 4
    assert surveys <= 3 * 4
