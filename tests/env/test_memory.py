"""Freed memory is returned to the system, and garbage collection runs rarely."""

import ast
import ctypes
import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.tables import cases

from pilothouse.env import Env, virtual
from pilothouse.env.memory import collecting_rarely

GLIBC = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt")
COME_AND_GO = """
import os
from pilothouse.env.memory import TLS_BUFFER, return_large_blocks

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

return_large_blocks(TLS_BUFFER)
before = resident()
bytearray(1 << 20)  # glibc takes its size as the new threshold when it is freed
buffers = []
for _ in range(200):
    buffers += [bytearray(b"x" * (256 << 10)), bytearray(4096)]
most = resident()
del buffers[::2]
print(most - before, resident() - before)
"""


@pytest.mark.skipif(not GLIBC, reason="only glibc has a threshold that moves")
@cases(
    "settings, stays",
    {
        "freed blocks between small objects are returned": ({}, False),
        "environment variable takes precedence": ({"MALLOC_MMAP_THRESHOLD_": "4194304"}, True),
    },
)
def test_freed_buffers_are_returned_to_the_system(settings: dict[str, str], stays: bool) -> None:
    environment = {"PYTHONPATH": ":".join(sys.path), **settings}
    done = subprocess.run(
        [sys.executable, "-c", COME_AND_GO], env=environment, capture_output=True, text=True, check=True
    )
    most, left = map(int, done.stdout.split())
    assert most > 50 << 20
    assert (left > 20 << 20) is stays
    assert (left < 10 << 20) is not stays


@pytest.fixture
def threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.enable()


@cases(
    "before, within",
    {
        "Python's own numbers are raised": ((700, 10, 10), (10_000, 100, 10)),
        "thresholds of older generations are kept": ((700, 1000, 10), (10_000, 1000, 10)),
        "a higher threshold is kept": ((50_000, 5, 5), (50_000, 5, 5)),
        "disabled collection stays disabled": ((0, 10, 10), (0, 10, 10)),
    },
)
def test_gc_thresholds(threshold: None, before: tuple[int, int, int], within: tuple[int, int, int]) -> None:
    gc.set_threshold(*before)
    with collecting_rarely():
        assert gc.get_threshold() == within
    assert gc.get_threshold() == before


def test_long_running_program_collects_the_old_generation(threshold: None) -> None:
    gc.set_threshold(700, 10, 10)
    with collecting_rarely(older=False):
        assert gc.get_threshold() == (10_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_disabled_collector_stays_disabled(threshold: None) -> None:
    before = gc.get_threshold()
    gc.disable()
    with collecting_rarely():
        assert gc.get_threshold() == before
    assert not gc.isenabled()


def test_virtual_run_raises_and_restores_the_threshold(threshold: None) -> None:
    async def main(_env: Env) -> int:
        return gc.get_threshold()[0]

    gc.set_threshold(700, 10, 10)
    assert virtual.run(main) == 10_000
    assert gc.get_threshold() == (700, 10, 10)


PROGRAM = """
import gc, sys
from pilothouse.env import memory
gc.set_threshold(700, 10, 10)
found = [gc.get_threshold()]
memory.begin_startup()
found.append(gc.get_threshold())
with memory.collecting_rarely(older=False):
    found.append(gc.get_threshold())
    memory.end_startup()
    found += [gc.get_threshold(), gc.get_freeze_count() > 1000]
    memory.end_startup()
found.append(gc.get_threshold())
print(found)
"""


STAYS = """
import gc
from pilothouse.env import memory
gc.set_threshold(700, 10, 10)
gc.collect()
found = []
gc.callbacks.append(lambda phase, info: found.append(phase))
with memory.creating_permanent_objects():
    made = [[number] for number in range(100_000)]
del gc.callbacks[:]
print([found, gc.get_count()[0] < 700, gc.get_freeze_count(), gc.get_threshold(), gc.is_tracked(made)])
"""


@cases(
    "program, count",
    {
        "collection is disabled until the program has started": (
            PROGRAM,
            [(700, 10, 10), (200_000, 10, 10), (200_000, 10, 10), (10_000, 10, 10), True, (700, 10, 10)],
        ),
        "permanent objects are frozen without collection": (STAYS, [[], True, 0, (700, 10, 10), True]),
    },
)
def test_objects_created_at_startup(program: str, count: list[object]) -> None:
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == count
