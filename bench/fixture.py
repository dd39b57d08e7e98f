"""Test fixture: from nothing to a ready plane with three nodes in the process of the test.

The first plane of an interpreter includes the imports, once per test session. Each later one is the time that a test
with its own plane waits.
"""

import subprocess
import sys

import msgspec

from bench.processes import environment
from bench.report import Figure, figure

ROUNDS = 7
_PROGRAM = """
import json, time
began = time.perf_counter()
from pilothouse.testing import plane
imported = time.perf_counter() - began
ready, stopped = [], []
for _ in range(8):
    start = time.perf_counter()
    with plane({arguments}) as cluster:
        ready.append(time.perf_counter() - start)
        end = time.perf_counter()
    stopped.append(time.perf_counter() - end)
print(json.dumps([imported, ready, stopped]))
"""


def _runs(arguments: str) -> list[tuple[float, list[float], list[float]]]:
    program = _PROGRAM.format(arguments=arguments)
    found = []
    for _round in range(ROUNDS + 1):
        done = subprocess.run(
            [sys.executable, "-c", program], env=dict(environment()), capture_output=True, text=True, check=True
        )
        found.append(msgspec.json.decode(done.stdout, type=tuple[float, list[float], list[float]]))
    return found[1:]  # the first one compiled modules


def figures() -> list[Figure]:
    """With the port that the fixture has, and without."""
    rows = []
    for title, arguments in (("over HTTP", ""), ("without a port", "serve=False")):
        runs = _runs(arguments)
        rows += [
            figure(
                f"test plane {title}: first one, imports included", "s", [run[0] + run[1][0] for run in runs],
                budget=0.3, aim=0.1,
            ),
            figure(
                f"test plane {title}: first one, imports done", "s", [run[1][0] for run in runs],
                budget=0.3, aim=0.1,
            ),
            figure(
                f"test plane {title}: each further one", "s", [took for run in runs for took in run[1][1:]],
                budget=0.3, aim=0.1,
            ),
        ]  # fmt: skip
    return rows


if __name__ == "__main__":
    from bench.report import table

    print(table(figures()))
