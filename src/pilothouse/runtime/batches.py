"""Runs many similar calls in growing batches, and stops after a failure (upstream's ``slowStartBatch``).

A controller that must create 500 pods sends one, then two, four, eight …, and stops after the first batch with a
failure: if a quota or a webhook rejects, only one request fails, not 500 (``slowStartBatch``, v1.36 replica_set.go).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

INITIAL_BATCH = 1
"""``SlowStartInitialBatchSize``."""


class Futile(Exception):
    """Raised by a call of ``slow_start`` if all further calls would have the same result. It counts as a success, and
    no more calls are made."""


async def slow_start(
    count: int, initial: int, call: Callable[[int], Awaitable[object]], *, max_size: int = 0
) -> tuple[int, Exception | None]:
    """Run ``call(0)`` … ``call(count - 1)`` in batches of ``initial``, 2·``initial``, 4·``initial`` …, none larger
    than ``max_size`` if that is given.

    The calls of a batch run concurrently. After the first batch with a failure no more calls are made. Returns the
    number of successes and the failure of the lowest index. Example: count 10, initial 1 makes batches of 1, 2, 4, 3.
    If the third call fails, 3 calls are made and the result is (2, its error). If it raises ``Futile``, 3 calls are
    made and the result is that of 10 successes.
    """
    succeeded = 0
    for batch in growing_batches(count, initial, max_size):
        results = await run_all([call(index) for index in batch])
        failures = [result for result in results if result is not None]
        errors = [failure for failure in failures if not isinstance(failure, Futile)]
        succeeded += len(batch) - len(errors)
        if errors:
            return succeeded, errors[0]
        if failures:
            return count, None
    return succeeded, None


def growing_batches(count: int, initial: int, max_size: int = 0) -> Iterator[range]:
    """The indexes 0 … ``count - 1`` in batches of ``initial``, 2·``initial``, 4·``initial`` …, none larger than
    ``max_size`` if that is given."""
    done = 0
    batch = min(count, initial)
    while batch > 0:
        yield range(done, done + batch)
        done += batch
        batch = min(count - done, batch * 2, max_size or count)


async def run_all(calls: "list[Awaitable[object]]") -> "list[Exception | None]":
    """Await all of them concurrently. Returns the exception of each, or None, in the order of the list.

    When the caller is cancelled, so are they, in order.
    """
    if len(calls) == 1:
        # A single call needs no task; most batches are of this size.
        try:
            await calls[0]
        except Exception as error:  # noqa: BLE001  # handed to the caller as a value
            return [error]
        return [None]
    results = await asyncio.gather(*calls, return_exceptions=True)
    answers: list[Exception | None] = []
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Exception):
            raise result
        answers.append(result if isinstance(result, Exception) else None)
    return answers
