"""Manager compared with kube-controller-manager: 1,000 namespaces get their service account and root CA.

Managers run alternately (``managers.ORDER``), each time on a new API server. This process creates the namespaces with
sixteen concurrent requests, faster than the two controllers, which have one worker each as upstream, can follow.
Figures: wall seconds from the first namespace until the last has both, CPU microseconds and writes of the manager per
namespace, its resident memory at the end.

``python -m bench.namespaces [NAMESPACES]`` runs it alone.
"""

import asyncio
import sys
from collections.abc import Sequence

from tests.real_cluster import RealCluster, missing_programs

from bench.managers import ORDER, command, comparisons, in_turn, running_manager
from bench.report import Figure
from bench.rollouts import Phases
from bench.tally import Tally, connected, create_all, each_on_its_own, written
from pilothouse.api.core import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, ConfigMap, ServiceAccount
from pilothouse.env import loops

COUNT = 1000
_CONTROLLERS = "serviceaccount,root-ca-cert-publisher"
_MADE = ("serviceaccounts", "configmaps")
_AUTHORITY = "kube-root-ca.crt"


async def _filled(cluster: RealCluster, pid: int, count: int, prefix: str) -> dict[str, float]:
    """Make the namespaces, and wait until each has what it should have."""

    def is_account(found: ServiceAccount) -> bool:
        return found.metadata.name == "default" and found.metadata.namespace.startswith(f"{prefix}-")

    def is_authority(found: ConfigMap) -> bool:
        return found.metadata.namespace.startswith(f"{prefix}-") and "BEGIN CERT" in found.data.get("ca.crt", "")

    async with connected(cluster) as (client, env, group):
        accounts = Tally(client, env, SERVICE_ACCOUNTS, is_account)
        authorities = Tally(client, env, CONFIG_MAPS, is_authority, field_selector=f"metadata.name={_AUTHORITY}")
        for tally in (accounts, authorities):
            await tally.start(group)
        phases, before = Phases(pid, count, "namespace"), written(cluster, "POST", *_MADE)
        with phases.phase("both are there", "filled"):
            await create_all(client, NAMESPACES, [{"metadata": {"name": f"{prefix}-{n}"}} for n in range(count)])
            await asyncio.gather(accounts.reach(count), authorities.reach(count))
        phases.rest()
        writes = written(cluster, "POST", *_MADE) - before
        return {**phases.figures, "sent per namespace writes": writes / count}


def measure(cluster: RealCluster, who: str, count: int, name: str) -> dict[str, float]:
    """One manager, so many namespaces, whose names begin with that name."""
    flags = command(cluster, who, _CONTROLLERS, f"--root-ca-file={cluster.ca_file}")
    with running_manager(flags, cluster.directory / f"{name}.log") as pid:
        return loops.run(_filled(cluster, pid, count, name))


def figures(count: int = COUNT, order: Sequence[str] = ORDER) -> list[Figure]:
    """Both managers in turn. Nothing without the real programs."""
    if missing_programs():
        return []
    what = f"{count:,} namespaces"
    runs = in_turn(what, order, each_on_its_own(lambda cluster, who, name: measure(cluster, who, count, name)))
    return comparisons(what, runs)


def main() -> None:
    from bench.report import table

    print(table(figures(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT)))


if __name__ == "__main__":
    main()
