"""``/metrics`` of the API server: kube-apiserver's families under their names, labels, buckets and texts (v1.36).

``ServerMetrics`` has all of one server. A server without a handler chain has none, and counts nothing: ``Core.metrics``
is None there. What is counted for each request is additions on children that are looked up once; families that follow
from others (a counter that equals the count of a histogram) are filled when somebody asks.
"""

from pilothouse.apiserver.metrics.server_metrics import ServerMetrics

__all__ = ["ServerMetrics"]
