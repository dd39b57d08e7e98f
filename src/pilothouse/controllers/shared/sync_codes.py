"""Counts syncs and their duration by HTTP code, as upstream's CA publishers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pilothouse.client.errors import ApiError
from pilothouse.machinery.metrics import Registry, exponential_buckets

_CODE = ("code",)


class SyncCodes:
    """``<prefix>_sync_total`` and ``<prefix>_sync_duration_seconds``, with their help texts."""

    def __init__(self, metrics: Registry, now: Callable[[], float], prefix: str, total: str, duration: str) -> None:
        self._now = now
        self._syncs = metrics.counter(f"{prefix}_sync_total", total, _CODE)
        self._durations = metrics.histogram(
            f"{prefix}_sync_duration_seconds", duration, _CODE, buckets=exponential_buckets(0.001, 2, 15)
        )

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts one sync: 200 if it succeeds, the code of the server's error, 500 for any other error."""
        started, code = self._now(), "500"
        try:
            yield
            code = "200"
        except ApiError as error:
            code = str(error.code)
            raise
        finally:
            self._syncs.labels(code).inc()
            self._durations.labels(code).observe(self._now() - started)
