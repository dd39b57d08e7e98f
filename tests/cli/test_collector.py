"""Programs raise the thresholds of Python's garbage collector, and restore them at the end."""

import gc

from pilothouse.cli.program import serve


async def _threshold() -> int:
    return gc.get_threshold()[0]


def test_a_program_collects_after_more_new_objects() -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        assert serve("pilothouse", _threshold(), v=0) == 5_000
        assert gc.get_threshold() == (700, 10, 10)
    finally:
        gc.set_threshold(*before)
