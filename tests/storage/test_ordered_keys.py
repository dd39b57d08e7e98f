"""Sorted keys in runs behave as one sorted list."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.storage.ordered_keys import RUN, OrderedKeys

KEYS = st.text(alphabet="ab/0é", max_size=4)


@given(st.lists(st.tuples(st.booleans(), KEYS)), KEYS, st.none() | KEYS, st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_ranges_and_counts_agree_with_a_sorted_list(
    steps: list[tuple[bool, str]], after: str, before: str | None, limit: int
) -> None:
    keys, model = OrderedKeys(), set()
    for add, key in steps:
        if add and key not in model:
            keys.add(key)
            model.add(key)
        elif not add and key in model:
            keys.remove(key)
            model.discard(key)
    expected = [key for key in sorted(model) if key > after and (before is None or key < before)]
    assert list(keys) == sorted(model)
    assert len(keys) == len(model)
    assert keys.count(after, before) == len(expected)
    assert keys.range(after, before) == expected
    assert keys.range(after, before, limit) == (expected[:limit] if limit else expected)


def test_runs_are_split_and_merged() -> None:
    rng = random.Random(1)
    names = [f"{rng.getrandbits(40):010x}" for _ in range(10 * RUN)]
    keys = OrderedKeys()
    for name in names:
        keys.add(name)
    ordered = sorted(names)
    assert list(keys) == ordered
    assert max(map(len, keys._runs)) <= 2 * RUN
    for low in range(0, len(ordered), 997):
        assert keys.range(ordered[low], None, 5) == ordered[low + 1 : low + 6]
        assert keys.count(ordered[low], ordered[-1]) == max(0, len(ordered) - low - 2)
    rng.shuffle(names)
    for name in names[50:]:
        keys.remove(name)
    assert list(keys) == sorted(names[:50])
    assert len(keys._runs) <= 3
    for name in names[:50]:
        keys.remove(name)
    assert list(keys) == [] and len(keys) == 0


def test_initial_keys_are_sorted() -> None:
    names = [str(i) for i in range(3 * RUN)]
    assert list(OrderedKeys(names)) == sorted(names)


def test_ascending_keys_are_appended() -> None:
    keys = OrderedKeys()
    for i in range(5 * RUN):
        keys.add(f"{i:06}")
    assert list(keys) == [f"{i:06}" for i in range(5 * RUN)]
