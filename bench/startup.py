"""``pilothouse up --nodes 3``: time until ``/readyz`` and until "ready", and the CPU and memory of an idle plane.

The start of the process until ``/readyz`` answers over TLS, and until "ready" is printed (nodes registered, controllers
running); compared with etcd and kube-apiserver where these are available. CPU until "ready" is more reliable than wall
time on a machine with other load. It is measured for an installation and, if this runs in the environment of a clone,
for what ``make up`` starts.
"""

import http.client
import os
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.real_cluster import RealCluster, missing_programs

from bench.processes import ROOT, cpu_seconds, pilothouse, resident_bytes, started, wait_for_line
from bench.report import Figure, figure

ROUNDS = 5
PORT = 26443
_SETTLE_SECONDS = 5.0
_IDLE_SECONDS = 15.0


def _until_ready(context: ssl.SSLContext) -> None:
    deadline = time.perf_counter() + 30
    while time.perf_counter() < deadline:
        connection = http.client.HTTPSConnection("127.0.0.1", PORT, timeout=2, context=context)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.002)
        finally:
            connection.close()
    raise TimeoutError("/readyz did not answer within 30 s")


def _once(*, idle: bool) -> dict[str, float]:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name:
        directory = Path(name)
        log = directory / "log"
        began = time.perf_counter()
        with started(pilothouse("up", "--nodes=3", f"--port={PORT}"), log, cwd=directory) as process:
            _until_ready(context)
            found = {"readyz": time.perf_counter() - began}
            wait_for_line(process, "is ready", log)
            found["ready"] = time.perf_counter() - began
            found["ready cpu"] = cpu_seconds(process.pid)
            if idle:
                time.sleep(_SETTLE_SECONDS)
                cpu = cpu_seconds(process.pid)
                time.sleep(_IDLE_SECONDS)
                found["idle"] = (cpu_seconds(process.pid) - cpu) / _IDLE_SECONDS * 1000
                found["resident"] = resident_bytes(process.pid) / 1e6
            return found


def _made() -> list[float]:
    """CPU until "ready" of what ``make up`` starts, in the environment of whoever calls it; nothing without a clone's
    environment."""
    program = Path(sys.prefix) / "bin" / "pilothouse"
    if Path(sys.prefix).parent != ROOT or not program.exists():
        return []
    compiled = f"{Path(sys.prefix).name}/.compiled"
    subprocess.run(["make", "-s", compiled], cwd=ROOT, check=True)
    found = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name:
            log = Path(name) / "log"
            command = [str(program), "up", "--nodes=3", f"--port={PORT}"]
            with started(command, log, cwd=Path(name), env=os.environ) as process:
                wait_for_line(process, "is ready", log)
                found.append(cpu_seconds(process.pid))
    return found


def _real() -> float:
    cluster = RealCluster()
    try:
        began = time.perf_counter()
        cluster.start()
        return time.perf_counter() - began
    finally:
        cluster.stop()


def figures() -> list[Figure]:
    """Start-up times of several starts; the idle figures of the last."""
    _once(idle=False)  # compiles modules, as an installation does
    runs, others = [], []
    for number in range(ROUNDS):
        runs.append(_once(idle=number == ROUNDS - 1))
        if number < 2 and not missing_programs():
            others.append(_real())
    last, made = runs[-1], _made()
    return [
        figure("pilothouse up: process start to /readyz", "s", [run["readyz"] for run in runs], budget=1.0, aim=0.5),
        figure("pilothouse up: process start to ready", "s", [run["ready"] for run in runs]),
        figure("pilothouse up: CPU until ready", "s", [run["ready cpu"] for run in runs], budget=0.6),
        *([figure("make up: CPU until ready", "s", made, budget=0.6)] if made else []),
        *([figure("  etcd and kube-apiserver to /readyz", "s", others)] if others else []),
        figure("pilothouse up --nodes 3, idle: resident memory", "MB", [last["resident"]], budget=150, aim=80),
        figure("pilothouse up --nodes 3, idle: CPU", "ms per s", [last["idle"]]),
    ]


if __name__ == "__main__":
    from bench.report import table

    print(table(figures()))
