"""Reports that ``up`` waits because another manager holds its Lease: the API server serves in the meantime.

That can only be in a store that other programs use as well: an etcd, or a data directory whose cluster had another
manager.
"""

import asyncio
from typing import TYPE_CHECKING

from pilothouse.api.coordination import LEASES
from pilothouse.cli.terminal import escaped
from pilothouse.client.errors import ApiError

if TYPE_CHECKING:
    from pilothouse.client import Client
    from pilothouse.controllermanager.options import LeaderElection

_PATIENCE = 3.0
"""Seconds; ``up`` has the Lease sooner if nobody holds it."""
_CHECK_SECONDS = 2.0


async def report_held_lease(client: "Client", election: "LeaderElection", identity: str, serving: str) -> None:
    """Print once who holds the Lease, after ``serving``. To be cancelled when this process leads."""
    name, namespace = election.resource_name, election.resource_namespace
    await asyncio.sleep(_PATIENCE)
    while True:
        try:
            holder = (await client.get(LEASES, name, namespace)).spec.holder_identity
        except (ApiError, OSError):
            holder = ""  # it does not exist yet, or can't be read: the manager reports that
        if holder not in ("", identity):
            print(
                f"{serving}\nIt waits for the Lease {namespace}/{name}, held by {escaped(holder)}: until then its "
                "controllers do not run.",
                flush=True,
            )
            return
        await asyncio.sleep(_CHECK_SECONDS)
