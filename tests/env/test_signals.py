"""A signal that arrives more than once."""

import signal
import time

import pytest

from pilothouse.env.signals import FirstSignal


def test_a_signal_within_half_a_second_is_the_first_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((100.0, 100.0, 100.4, 100.6, 107.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    first = FirstSignal(signal.SIGTERM)
    assert first.number == signal.SIGTERM
    assert [first.is_repeated() for _ in range(4)] == [True, True, False, False]
