"""NodeMetrics and PodMetrics of the group ``metrics.k8s.io``, which are not stored."""

from pilothouse.apiserver.registry.generic.printers import NAME, Column, Doc, Now, Printer, Row
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.machinery.quantities import Quantity, parse_quantity


def print_metrics(value: Doc, _now: Now) -> Row:
    """Metrics of a pod or a node, as metrics-server prints them (v0.8 ``pkg/api/table.go``)."""
    usages = [container_or_node.get("usage") or {} for container_or_node in value.get("containers") or (value,)]

    def total(resource: str) -> str:
        return str(sum((parse_quantity(usage.get(resource) or "0") for usage in usages), Quantity(0)))

    return [total("cpu"), total("memory"), value.get("window") or ""]


_COLUMNS = (
    NAME,
    Column("cpu", format="quantity"),
    Column("memory", format="quantity"),
    Column("Window", format="duration"),
)
REGISTRATION = Registration(Strategy(), printer=lambda: Printer(_COLUMNS, print_metrics))
