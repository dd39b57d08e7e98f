"""``pilothouse up --nodes 3``: from the start of the process to ``/readyz`` over TLS and to "ready" (nodes registered,
controllers at work), and what it takes when nothing happens. etcd and kube-apiserver beside it, where there are any.
"""

import http.client
import ssl
import tempfile
import time
from pathlib import Path

from tests.real_cluster import RealCluster, missing_programs

from bench.processes import cpu_seconds, pilothouse, resident_bytes, started, wait_for_line
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
            if idle:
                time.sleep(_SETTLE_SECONDS)
                cpu = cpu_seconds(process.pid)
                time.sleep(_IDLE_SECONDS)
                found["idle"] = (cpu_seconds(process.pid) - cpu) / _IDLE_SECONDS * 1000
                found["resident"] = resident_bytes(process.pid) / 1e6
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
    last = runs[-1]
    return [
        figure("pilothouse up: process start to /readyz", "s", [run["readyz"] for run in runs], budget=1.0, aim=0.5),
        figure("pilothouse up: process start to ready", "s", [run["ready"] for run in runs]),
        *([figure("  etcd and kube-apiserver to /readyz", "s", others)] if others else []),
        figure("pilothouse up --nodes 3, idle: resident memory", "MB", [last["resident"]], budget=150, aim=80),
        figure("pilothouse up --nodes 3, idle: CPU", "ms per s", [last["idle"]]),
    ]


if __name__ == "__main__":
    from bench.report import table

    print(table(figures()))
