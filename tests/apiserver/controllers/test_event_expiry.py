"""The queue of Events to be expired. Their deletion is tested in tests/apiserver/endpoints/test_watch.py."""

from pilothouse.apiserver.controllers.event_expiry import _Queue


def test_queue_returns_entries_in_order_and_removes_expired_ones_from_memory() -> None:
    queue, removed = _Queue(), []
    for number in range(5_000):
        queue.append(float(number), number, f"key-{number}")
        if number >= 100:
            assert queue.expires_at == number - 100
            removed.append(queue.pop())
    assert removed == [(number, f"key-{number}") for number in range(4_900)]
    assert len(queue) == 100
    assert len(queue._times) == len(queue._revisions) < 2_500
