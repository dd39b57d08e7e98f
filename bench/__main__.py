"""``python -m bench [NAME ...] [--json FILE]``: run the benchmarks and print one table. ``--list`` lists them.

Benchmarks that compare with the Go programs run these if ``KUBEBUILDER_ASSETS`` is set. The last column shows which
limit a figure meets: its aim, its budget, or neither. That does not affect the exit code, because other load on the
machine affects the figures. If several sizes were run, the last rows divide the cost per object at the largest size by
the cost at the smallest; 1 means that the cost does not grow.
"""

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.real_cluster import missing_programs

from bench.report import Figure, growth, table, write_json

BENCHMARKS: dict[str, tuple[str, dict[str, int]]] = {
    "replicaset-500": ("bench.side_by_side", {"pods": 500}),
    "replicaset-5000": ("bench.side_by_side", {"pods": 5000}),
    "replicaset-20000": ("bench.side_by_side", {"pods": 20000}),
    "daemonset-1000": ("bench.daemonset", {"nodes": 1000}),
    "daemonset-5000": ("bench.daemonset", {"nodes": 5000}),
    "namespaces": ("bench.namespaces", {}),
    "claims-1000": ("bench.claims", {"count": 1000}),
    "claims-5000": ("bench.claims", {"count": 5000}),
    "deployments": ("bench.deployments", {}),
    "up-deployments": ("bench.many_deployments", {}),
    "up-full": ("bench.full_cluster", {}),
    "up-150000": ("bench.large_cluster", {}),
    "virtual-rollout": ("bench.virtual_rollout", {}),
    "operator": ("bench.operator", {}),
    "node-change": ("bench.node_change", {}),
    "scheduler-1000": ("bench.scheduler", {"nodes": 1000}),
    "scheduler-5000": ("bench.scheduler", {"nodes": 5000}),
    "decisions": ("bench.decisions", {}),
    "nodes": ("bench.nodes", {}),
    "setup": ("bench.setup", {}),
    "startup": ("bench.startup", {}),
    "fixture": ("bench.fixture", {}),
    "virtual-time": ("bench.virtual_time", {}),
    "creates": ("bench.durable_creates", {}),
    "server": ("bench.api_server", {}),
    "server-etcd": ("bench.api_server", {"on_etcd": True}),
    "micro": ("bench.micro", {}),
}

ON_REQUEST = {"up-150000"}
"""Not run unless they are named: they take a quarter of an hour."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"benchmarks to run (default: all but the longest): {', '.join(BENCHMARKS)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file, as JSON")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (module, _settings) in BENCHMARKS.items():
            summary = (importlib.import_module(module).__doc__ or "").split("\n\n")[0]
            print(f"{name:<20}{' '.join(summary.split())}")
        return 0
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; the benchmarks are {', '.join(BENCHMARKS)}")
    missing = missing_programs()
    if missing:
        print(f"Running without the Go programs: {missing}", file=sys.stderr)
    figures: list[Figure] = []
    for name in arguments.names or [each for each in BENCHMARKS if each not in ON_REQUEST]:
        module, settings = BENCHMARKS[name]
        measure: Callable[..., list[Figure]] = importlib.import_module(module).figures
        began = time.perf_counter()
        figures += measure(**settings)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    figures += growth(figures)
    print(table(figures))
    if arguments.json:
        write_json(arguments.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
