"""Bounded parallelism over many items."""

from collections.abc import Iterator

import pytest

from pilothouse.controllers.shared.parallel import each


async def test_error_while_iterating_is_raised() -> None:
    done: list[int] = []

    def things() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    async def act(thing: int) -> None:
        done.append(thing)

    with pytest.raises(ValueError, match="no more"):
        await each(things(), act, concurrency=4)
    assert done == [1]


@pytest.mark.parametrize("concurrency", [0, -1])
async def test_empty_iterable(concurrency: int) -> None:
    async def act(thing: int) -> None:
        raise AssertionError(f"nobody is there for {thing}")

    await each([1, 2], act, concurrency=concurrency)
