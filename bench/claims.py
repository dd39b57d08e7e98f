"""Manager compared with kube-controller-manager: N volumes become Available, N claims are bound to them.

The volumes belong to a CSI driver and a class with immediate binding, and have twenty sizes; for each there is a claim
of exactly that size. Managers run alternately, as in ``bench.namespaces``, on a real API server. This process creates
volumes and claims with sixteen concurrent requests; both managers process one claim at a time, with four writes each.
Figures: wall seconds until all volumes are Available, and from the first claim until all are Bound; CPU microseconds of
the manager per volume and per claim; its writes per claim; its resident memory when all are bound. With several sizes,
the last rows show whether the cost of a claim depends on the number of volumes.

``python -m bench.claims [CLAIMS]`` runs it alone; with ``--profile`` only our manager runs, under cProfile.
"""

import contextlib
import pstats
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.real_cluster import RealCluster, missing_programs, running

from bench.managers import ORDER, command, comparisons, in_turn, running_manager
from bench.report import Figure
from bench.rollouts import Phases
from bench.tally import Tally, connected, create_all, each_on_its_own, written
from pilothouse.api.core import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from pilothouse.api.storage import PERSISTENT_VOLUMES, STORAGE_CLASSES, PersistentVolume
from pilothouse.client.errors import AlreadyExists
from pilothouse.env import loops

CLASS = "bench-by-hand"
_CONTROLLERS = "persistentvolume-binder"
_SIZES = 20
_WRITTEN = ("persistentvolumes", "persistentvolumeclaims")


def storage_class() -> dict[str, Any]:
    """Volumes are made by hand, and bound at once."""
    return {
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
    }


def volume(name: str, number: int) -> dict[str, Any]:
    """A volume of one of the sizes."""
    return {
        "metadata": {"name": f"{name}-{number}"},
        "spec": {
            "capacity": {"storage": _size(number)},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": CLASS,
            "csi": {"driver": "bench.example.com", "volumeHandle": f"{name}-{number}"},
        },
    }


def claim(number: int) -> dict[str, Any]:
    """A claim that asks for just as much as one of the volumes has."""
    return {
        "metadata": {"name": f"data-{number}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": _size(number)}},
            "storageClassName": CLASS,
        },
    }


def _size(number: int) -> str:
    return f"{1 + number % _SIZES}Gi"


async def _bound(cluster: RealCluster, pid: int, count: int, name: str) -> dict[str, float]:
    """Make volumes, then claims in a namespace of that name, and wait for both."""

    def is_available(found: PersistentVolume) -> bool:
        return found.metadata.name.startswith(f"{name}-") and found.status.phase == "Available"

    def is_bound(found: PersistentVolumeClaim) -> bool:
        return found.metadata.namespace == name and found.status.phase == "Bound"

    async with connected(cluster) as (client, env, group):
        volumes = Tally(client, env, PERSISTENT_VOLUMES, is_available)
        claims = Tally(client, env, PERSISTENT_VOLUME_CLAIMS, is_bound)
        for tally in (volumes, claims):
            await tally.start(group)
        with contextlib.suppress(AlreadyExists):
            await client.create(STORAGE_CLASSES.raw, storage_class())
        await client.create(NAMESPACES.raw, {"metadata": {"name": name}})
        made, phases = Phases(pid, count, "volume"), Phases(pid, count, "claim")
        with made.phase("volumes", "made available"):
            await create_all(client, PERSISTENT_VOLUMES, [volume(name, number) for number in range(count)])
            await volumes.reach(count)
        made.rest("before claims")
        before = written(cluster, "PUT", *_WRITTEN)
        with phases.phase("claims", "bound"):
            await create_all(client, PERSISTENT_VOLUME_CLAIMS, [claim(number) for number in range(count)], name)
            await claims.reach(count)
        phases.rest()
        writes = written(cluster, "PUT", *_WRITTEN) - before
        return {**made.figures, **phases.figures, "sent per claim writes": writes / count}


def measure(cluster: RealCluster, who: str, count: int, name: str, *, profile: Path | None = None) -> dict[str, float]:
    """One manager, so many volumes and claims. ``profile``: where cProfile is to write about pilothouse."""
    words = command(cluster, who, _CONTROLLERS)
    if profile is not None:
        words[1:1] = ["-m", "cProfile", "-o", str(profile)]
    with running_manager(words, cluster.directory / f"{name}.log") as pid:
        return loops.run(_bound(cluster, pid, count, name))


def figures(count: int = 5000, order: Sequence[str] = ORDER[:4]) -> list[Figure]:
    """Both managers in turn, twice each. Nothing without the real programs."""
    if missing_programs():
        return []
    what = f"{count:,} claims"
    runs = in_turn(what, order, each_on_its_own(lambda cluster, who, name: measure(cluster, who, count, name)))
    return comparisons(what, runs, series="N claims", size=count)


def main() -> None:
    from bench.report import growth, table

    words = [word for word in sys.argv[1:] if word != "--profile"]
    sizes = [int(word) for word in words] or [1000, 5000]
    if "--profile" in sys.argv:
        with running() as cluster, tempfile.TemporaryDirectory() as directory:
            profile = Path(directory, "profile")
            print(measure(cluster, "pilothouse", sizes[0], "bench-0", profile=profile))
            pstats.Stats(str(profile)).sort_stats("tottime").print_stats(45)
        return
    measured = [one for count in sizes for one in figures(count)]
    print(table([*measured, *growth(measured)]))


if __name__ == "__main__":
    main()
