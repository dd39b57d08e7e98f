"""``up`` whose Lease is held by another manager: it serves, and logs what it waits for."""

import asyncio

import pytest
from tests.nodes.world import world as run_world

from pilothouse.api.coordination import LEASES
from pilothouse.cli.held_lease import report_held_lease
from pilothouse.client import merge_patch
from pilothouse.controllermanager.options import LeaderElection
from pilothouse.env import Env

_ELECTION = LeaderElection(enabled=True)


@pytest.mark.parametrize("holder", ["go-manager_1", "own", ""])
async def test_the_holder_is_named_once(env: Env, capsys: pytest.CaptureFixture[str], holder: str) -> None:
    async with run_world(env) as world:
        lease = {"metadata": {"name": "kube-controller-manager"}, "spec": {"holderIdentity": holder}}
        await world.client.create(LEASES.raw, lease, "kube-system")
        waiting = asyncio.create_task(report_held_lease(world.client, _ELECTION, "own", "SERVES"))
        await asyncio.sleep(60)
        expected = (
            "SERVES\nIt waits for the Lease kube-system/kube-controller-manager, held by go-manager_1: until then its "
            "controllers do not run.\n"
        )
        assert capsys.readouterr().out == (expected if holder == "go-manager_1" else "")
        waiting.cancel()


async def test_a_lease_that_is_taken_later_is_reported(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    async with run_world(env) as world:
        waiting = asyncio.create_task(report_held_lease(world.client, _ELECTION, "own", "SERVES"))
        await asyncio.sleep(10)  # without a Lease
        lease = {"metadata": {"name": "kube-controller-manager"}, "spec": {"holderIdentity": "own"}}
        await world.client.create(LEASES.raw, lease, "kube-system")
        await asyncio.sleep(10)
        assert not capsys.readouterr().out
        await world.client.patch(
            LEASES, "kube-controller-manager", merge_patch({"spec": {"holderIdentity": "x"}}), "kube-system"
        )
        await asyncio.sleep(10)
        assert "held by x" in capsys.readouterr().out
        waiting.cancel()
