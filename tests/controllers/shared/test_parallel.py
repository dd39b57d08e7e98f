"""Doing the same to many things."""

from collections.abc import Iterator

import pytest

from pilothouse.controllers.shared.parallel import each
from pilothouse.env import Env
from pilothouse.env.virtual import run


def test_what_goes_wrong_while_the_things_are_read_is_raised() -> None:
    done: list[int] = []

    def things() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    async def act(thing: int) -> None:
        done.append(thing)

    async def main(_env: Env) -> None:
        with pytest.raises(ValueError, match="no more"):
            await each(things(), act, at_once=4)

    run(main)
    assert done == [1]
