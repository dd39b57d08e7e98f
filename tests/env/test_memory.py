"""Large blocks go back to the system."""

import ctypes
import subprocess
import sys

import pytest

GLIBC = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt")
COME_AND_GO = """
import os
from pilothouse.env.memory import give_back_large_blocks

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

give_back_large_blocks()
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
@pytest.mark.parametrize(
    ("settings", "stays"),
    [
        pytest.param({}, False, id="blocks between small ones that stay are given back"),
        pytest.param({"MALLOC_MMAP_THRESHOLD_": "4194304"}, True, id="the environment's word counts"),
    ],
)
def test_buffers_that_come_and_go(settings: dict[str, str], stays: bool) -> None:
    environment = {"PYTHONPATH": ":".join(sys.path), **settings}
    done = subprocess.run(
        [sys.executable, "-c", COME_AND_GO], env=environment, capture_output=True, text=True, check=True
    )
    most, left = map(int, done.stdout.split())
    assert most > 50 << 20
    assert (left > 20 << 20) is stays
    assert (left < 10 << 20) is not stays
