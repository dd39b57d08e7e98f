"""The ``process_*`` metrics: names and help texts of Go's client library (``client_golang`` v1.23
``prometheus/process_collector_procfsenabled.go``), which every upstream program exposes on Linux.

Programs that serve ``/metrics`` call ``install``; simulations do not. The files of ``/proc`` are read with each scrape,
in 0.1 ms. Without ``/proc`` there are no such metrics, as with Go on most systems. Of the ``go_*`` metrics there is
only ``go_goroutines``, for dashboards: the number of asyncio tasks.
"""

import asyncio
import os
import resource
from pathlib import Path

from pilothouse.machinery.metrics import Registry

UNLIMITED = float(2**64 - 1)
"""The value for an unlimited resource, as in Go."""


def install(registry: Registry, proc: Path = Path("/proc")) -> None:
    """Register the metrics of the process, if ``proc`` has them, and of its asyncio tasks."""
    tasks = registry.gauge("go_goroutines", "Number of goroutines that currently exist.").labels()
    registry.on_collect(lambda: tasks.set(_tasks()))
    process = proc / "self"
    if not (process / "stat").exists():
        return
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    cpu = registry.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.").labels()
    resident = registry.gauge("process_resident_memory_bytes", "Resident memory size in bytes.").labels()
    virtual = registry.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.").labels()
    most_virtual = registry.gauge(
        "process_virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes."
    ).labels()
    opened = registry.gauge("process_open_fds", "Number of open file descriptors.").labels()
    most_opened = registry.gauge("process_max_fds", "Maximum number of open file descriptors.").labels()
    started = registry.gauge(
        "process_start_time_seconds", "Start time of the process since unix epoch in seconds."
    ).labels()
    started.set(_boot_time(proc) + int(_fields(process)[19]) / ticks)
    received = registry.counter(
        "process_network_receive_bytes_total", "Number of bytes received by the process over the network."
    ).labels()
    sent = registry.counter(
        "process_network_transmit_bytes_total", "Number of bytes sent by the process over the network."
    ).labels()

    def refresh() -> None:
        fields = _fields(process)
        cpu.value = (int(fields[11]) + int(fields[12])) / ticks
        virtual.set(int(fields[20]))
        resident.set(int(fields[21]) * page)
        opened.set(len(os.listdir(process / "fd")))
        received.value, sent.value = _network_bytes(process)
        # Both can be changed from outside while the process runs (prlimit).
        most_virtual.set(_limit(resource.RLIMIT_AS))
        most_opened.set(_limit(resource.RLIMIT_NOFILE))

    registry.on_collect(refresh)


def _tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:  # no event loop runs in this thread
        return 0


def _fields(process: Path) -> list[str]:
    """``/proc/self/stat`` from its third field on: the second is the program's name, which may have blanks."""
    return (process / "stat").read_text().rpartition(")")[2].split()


def _boot_time(proc: Path) -> int:
    line = next(line for line in (proc / "stat").read_text().splitlines() if line.startswith("btime "))
    return int(line.split()[1])


def _network_bytes(process: Path) -> tuple[float, float]:
    """The bytes received and sent: as in Go, those of the whole network namespace."""
    try:
        lines = (process / "net" / "netstat").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    names, values = (line.split() for line in lines if line.startswith("IpExt: "))
    counts = dict(zip(names, values, strict=True))
    return float(counts.get("InOctets", 0)), float(counts.get("OutOctets", 0))


def _limit(which: int) -> float:
    soft, _hard = resource.getrlimit(which)
    return UNLIMITED if soft == resource.RLIM_INFINITY else float(soft)
