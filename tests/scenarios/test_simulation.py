"""What every simulated cluster promises, whatever is told in it."""

import asyncio

import pytest
from tests.scenarios.users import NAMESPACE, User

from pilothouse.client import Client
from pilothouse.sim import Simulation, SimulationOptions, simulate


@pytest.mark.parametrize("nodes", [0, 2])
@pytest.mark.parametrize("storage", [False, True], ids=["bare", "with storage"])
def test_both_servers_begin_with_the_same_objects(nodes: int, storage: bool) -> None:
    """Also where nobody asks the first one for anything before the second is there."""

    async def tell(simulation: Simulation) -> None:
        assert list(simulation.replica.list("").records) == list(simulation.store.list("").records)
        second = Client(simulation.replica.server.transport("admin", ("system:masters",)), simulation.env)
        namespaces = [await User(client).items("/api/v1/namespaces") for client in (simulation.user, second)]
        assert namespaces[0] == namespaces[1]
        assert len(namespaces[0]) == 4
        simulation.replica.set_lag(None)
        await User(simulation.user).ask("POST", f"{NAMESPACE}/configmaps", {"metadata": {"name": "new"}})
        assert not await User(second).items(f"{NAMESPACE}/configmaps")
        simulation.kill(stale=True)
        await asyncio.sleep(60.0)
        assert simulation.process is not None
        assert simulation.process.stale
        assert await User(second).items(f"{NAMESPACE}/configmaps")

    simulate(
        tell, options=SimulationOptions(nodes=nodes, storage=storage, controllers=("ttl-after-finished-controller",))
    )
