"""``/metrics`` of the API server: kube-apiserver's metrics with their names, labels, buckets and help texts (v1.36).

``ServerMetrics`` has the metrics of one server. A server without a handler chain has none: ``Core.metrics`` is None.
Requests increment children that are looked up once; metrics that can be derived from others (a counter that equals the
count of a histogram) are set when they are read.
"""

from pilothouse.apiserver.metrics.server_metrics import ServerMetrics

__all__ = ["ServerMetrics"]
