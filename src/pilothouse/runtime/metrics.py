"""The registry of metrics under the name by which controllers know it; ``machinery.metrics`` has it, for the API server
too."""

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
