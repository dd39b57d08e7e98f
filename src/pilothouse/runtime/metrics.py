"""The metrics registry for controllers; the implementation is ``machinery.metrics``, which the API server uses, too."""

from pilothouse.machinery.metrics import (
    DEFAULT_BUCKETS,
    UNEXPECTED,
    Counter,
    CounterFamily,
    Gauge,
    GaugeFamily,
    Histogram,
    HistogramFamily,
    Registry,
    exponential_buckets,
)

__all__ = [
    "DEFAULT_BUCKETS",
    "UNEXPECTED",
    "Counter",
    "CounterFamily",
    "Gauge",
    "GaugeFamily",
    "Histogram",
    "HistogramFamily",
    "Registry",
    "exponential_buckets",
]
