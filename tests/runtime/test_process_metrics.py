"""``process_*``: resource usage of the process, with Go's names."""

import os
import resource
import socket
import time
from pathlib import Path

import pytest

from pilothouse.runtime import process_metrics
from pilothouse.runtime.metrics import Registry

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")


@pytest.fixture
def registry() -> Registry:
    registry_object = Registry()
    process_metrics.install(registry_object)
    return registry_object


def test_cpu_time_agrees_with_the_system(registry: Registry) -> None:
    before = registry.value("process_cpu_seconds_total")
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    after = registry.value("process_cpu_seconds_total")
    assert 0.02 <= after - before < 5
    used = resource.getrusage(resource.RUSAGE_SELF)
    assert after == pytest.approx(used.ru_utime + used.ru_stime, abs=0.1)


def test_memory_agrees_with_the_system(registry: Registry) -> None:
    resident = registry.value("process_resident_memory_bytes")
    assert 5e6 < resident <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 * 1.1
    assert registry.value("process_virtual_memory_bytes") >= resident


def test_open_files_are_counted(registry: Registry) -> None:
    before = registry.value("process_open_fds")
    with open(os.devnull):
        assert registry.value("process_open_fds") == before + 1
    assert registry.value("process_open_fds") == before
    assert registry.value("process_max_fds") == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_start_time(registry: Registry) -> None:
    started = registry.value("process_start_time_seconds")
    assert time.time() - 24 * 3600 < started < time.time() + 1
    assert started == registry.value("process_start_time_seconds")


def test_network_bytes_grow_with_what_is_sent(registry: Registry) -> None:
    """As client_golang, also the bytes of other processes in the network namespace."""
    names = ("process_network_receive_bytes_total", "process_network_transmit_bytes_total")
    before = [registry.value(name) for name in names]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
        receiver.bind(("127.0.0.1", 0))
        sender.sendto(b"x" * 5_000, receiver.getsockname())
        assert len(receiver.recv(10_000)) == 5_000
    after = [registry.value(name) for name in names]
    assert all(later >= earlier + 5_000 for earlier, later in zip(before, after, strict=True))


def test_no_network_bytes_without_a_network(tmp_path: Path) -> None:
    (tmp_path / "self" / "fd").mkdir(parents=True)
    for name in ("stat", "self/stat"):
        (tmp_path / name).write_bytes(Path("/proc", name).read_bytes())
    registry = Registry()
    process_metrics.install(registry, tmp_path)
    assert registry.value("process_network_receive_bytes_total") == 0


def test_unlimited_file_descriptors_are_shown_as_in_go(registry: Registry) -> None:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    expected = 2.0**64 if limit == resource.RLIM_INFINITY else limit
    assert registry.value("process_virtual_memory_max_bytes") == expected


def test_no_metrics_without_proc(tmp_path: Path) -> None:
    registry = Registry()
    process_metrics.install(registry, tmp_path)
    assert "process_" not in registry.exposition()
