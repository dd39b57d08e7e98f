"""Long computations in a separate thread."""

import asyncio
import contextvars
import gc
import sys
import threading
import time

import pytest

from pilothouse.serving.worker_thread import WorkerThread

pytestmark = pytest.mark.real_loop

_name = contextvars.ContextVar("name", default="")


def _spin(seconds: float) -> str:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return threading.current_thread().name


def _wait(began: threading.Event, gate: threading.Event) -> bool:
    began.set()
    return gate.wait(30)


async def test_loop_continues_during_the_computation() -> None:
    worker = WorkerThread()
    turns = 0
    computing = asyncio.ensure_future(worker.run(_spin, 0.3))
    while not computing.done():
        await asyncio.sleep(0)
        turns += 1
    worker.stop()
    name = computing.result()
    assert name.startswith("pilothouse-worker")
    assert turns > 20


async def test_exceptions_propagate_and_context_is_copied() -> None:
    def fail() -> None:
        raise ValueError(_name.get())

    worker = WorkerThread()
    _name.set("mine")
    with pytest.raises(ValueError, match="mine"):
        await worker.run(fail)
    worker.stop()


async def test_gc_is_disabled_during_the_computation_and_restored() -> None:

    interval = sys.getswitchinterval()
    worker = WorkerThread()
    settings = await worker.run(lambda: (gc.isenabled(), sys.getswitchinterval()))
    worker.stop()
    collects, turn = settings
    assert not collects
    assert turn < interval
    assert (gc.isenabled(), sys.getswitchinterval()) == (True, interval)


@pytest.mark.parametrize("first_ends_first", [True, False])
async def test_overlapping_computations_restore_settings(first_ends_first: bool) -> None:
    """The second one begins while the first has changed the interval, and either ends first."""
    interval, gates = sys.getswitchinterval(), [threading.Event(), threading.Event()]
    workers = [WorkerThread(), WorkerThread()]
    computing = []
    for worker, gate in zip(workers, gates, strict=True):
        began = threading.Event()
        computing.append(asyncio.ensure_future(worker.run(_wait, began, gate)))
        await asyncio.to_thread(began.wait, 30)
    order = [0, 1] if first_ends_first else [1, 0]
    gates[order[0]].set()
    await computing[order[0]]
    between = sys.getswitchinterval(), gc.isenabled()
    gates[order[1]].set()
    await computing[order[1]]
    for worker in workers:
        worker.stop()
    turn, collects = between
    assert turn < interval
    assert not collects
    assert (gc.isenabled(), sys.getswitchinterval()) == (True, interval)


async def test_queue_is_bounded() -> None:
    worker = WorkerThread(max_waiting=1)
    full = [worker.is_full]
    computing = []
    for _ in range(2):
        computing.append(asyncio.ensure_future(worker.run(_spin, 0.01)))
        await asyncio.sleep(0)
        full.append(worker.is_full)
    await asyncio.gather(*computing)
    worker.stop()
    assert [*full, worker.is_full] == [False, False, True, False]
