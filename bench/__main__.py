"""``python -m bench [NAME ...] [--json FILE]``: run the benchmarks and print one table. ``--list`` names them.

Side by side with the real programs where ``KUBEBUILDER_ASSETS`` points at them. The last column says what a figure
reaches: its aim, its budget, or neither. The exit code does not: a machine that others use as well decides that. The
last rows divide the cost per object at the largest size by that at the smallest, where several were run: 1 is flat.
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
    "virtual-rollout": ("bench.virtual_rollout", {}),
    "node-change": ("bench.node_change", {}),
    "scheduler-1000": ("bench.scheduler", {"nodes": 1000}),
    "scheduler-5000": ("bench.scheduler", {"nodes": 5000}),
    "decisions": ("bench.decisions", {}),
    "nodes": ("bench.nodes", {}),
    "startup": ("bench.startup", {}),
    "fixture": ("bench.fixture", {}),
    "virtual-time": ("bench.virtual_time", {}),
    "creates": ("bench.durable_creates", {}),
    "server": ("bench.api_server", {}),
    "micro": ("bench.micro", {}),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; all without any")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--list", action="store_true", help="print the names and what each measures")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (module, _settings) in BENCHMARKS.items():
            doc = importlib.import_module(module).__doc__ or ""
            print(f"{name:<18}{' '.join(doc.split())}")
        return 0
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    problem = missing_programs()
    if problem:
        print(f"Without the real programs: {problem}", file=sys.stderr)
    figures: list[Figure] = []
    for name in arguments.names or BENCHMARKS:
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
