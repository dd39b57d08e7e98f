"""Delta debugging with known failures."""

import itertools

import pytest

from pilothouse.testing.shrinking import shrink

NUMBERS = tuple(range(16))


@pytest.mark.parametrize("needed", [(), (0,), (15,), (3, 4), (0, 15), (1, 7, 8), tuple(range(0, 16, 2)), NUMBERS])
def test_what_is_needed_is_what_is_left(needed: tuple[int, ...]) -> None:
    shrunk, runs = shrink(NUMBERS, lambda parts: set(needed) <= set(parts), limit=1000)
    assert shrunk == needed
    assert runs <= 200


@pytest.mark.parametrize("pair", list(itertools.combinations(range(5), 2)))
def test_every_pair_is_found(pair: tuple[int, int]) -> None:
    shrunk, _runs = shrink(tuple(range(5)), lambda parts: set(pair) <= set(parts), limit=1000)
    assert shrunk == pair


def test_of_several_reasons_one_is_left() -> None:
    shrunk, _runs = shrink(NUMBERS, lambda parts: 3 in parts or 12 in parts, limit=1000)
    assert shrunk in ((3,), (12,))


@pytest.mark.parametrize("most", [0, 1, 2, 5, 9])
def test_it_stops_after_its_runs_with_what_it_has(most: int) -> None:
    calls = 0

    def fails(parts: tuple[int, ...]) -> bool:
        nonlocal calls
        calls += 1
        return {3, 12} <= set(parts)

    shrunk, runs = shrink(NUMBERS, fails, limit=most)
    assert (calls, runs) == (most, most)
    assert {3, 12} <= set(shrunk)


def test_no_subset_is_tried_twice() -> None:
    observed: list[tuple[int, ...]] = []

    def fails(parts: tuple[int, ...]) -> bool:
        assert parts not in observed
        observed.append(parts)
        return {1, 7, 8} <= set(parts)

    shrink(NUMBERS, fails, limit=1000)


def test_a_single_part_is_tried_without() -> None:
    assert shrink((7,), lambda parts: bool(parts), limit=10) == ((7,), 1)
    assert shrink((), lambda _parts: True, limit=10) == ((), 1)
