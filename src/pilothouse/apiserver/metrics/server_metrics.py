"""``ServerMetrics``: all metrics of one server, and the pages of ``/metrics``.

Where manager and scheduler run in the same process, as in ``pilothouse up``, each has a page of its own, as upstream
each has a port: a page must not have two metrics of one name, and dashboards distinguish programs by scrape job. A
query parameter selects the page, so that permission for ``/metrics`` is enough for all of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pilothouse.api.wire import Response
from pilothouse.apiserver import errors
from pilothouse.apiserver.metrics.access import AccessMetrics
from pilothouse.apiserver.metrics.admission import AdmissionMetrics, PolicyMetrics
from pilothouse.apiserver.metrics.requests import RequestMetrics
from pilothouse.apiserver.metrics.storage import MonitoredStore, StorageMetrics
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.metrics import Registry

API_SERVER = "kube-apiserver"
Source = Callable[[], str]
"""Returns metrics in the text format; no other source of the page has the same."""

_TEXT = {"content-type": "text/plain; version=0.0.4; charset=utf-8", "cache-control": "no-cache, private"}


class AggregationMetrics:
    """The metrics of the availability of APIServices (``pkg/controllers/status/metrics/metrics.go``)."""

    def __init__(self, registry: Registry) -> None:
        self._gauge = registry.gauge(
            "aggregator_unavailable_apiservice",
            "[ALPHA] Gauge of APIServices which are marked as unavailable broken down by APIService name.",
            ("name",),
        )
        self._total = registry.counter(
            "aggregator_unavailable_apiservice_total",
            "[ALPHA] Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
            ("name", "reason"),
        )

    def show(self, available: Mapping[str, bool]) -> None:
        """Set the APIServices, and whether each is available."""
        self._gauge.show({(name,): 0.0 if is_available else 1.0 for name, is_available in available.items()})

    def became_unavailable(self, name: str, reason: str) -> None:
        """An APIService has become unavailable."""
        self._total.labels(name, reason).inc()


class ServerMetrics:
    """The metrics of one server. ``sources``: other metrics on its page; ``process``: those of the process;
    ``components``: pages of the other programs, by upstream's names of them."""

    def __init__(
        self,
        clock: Callable[[], float],
        store: MonitoredStore,
        resources: Callable[[], Iterable[ResourceInfo]],
        *,
        sources: Sequence[Source] = (),
        components: Mapping[str, Sequence[Source]] | None = None,
        process: Sequence[Source] = (),
    ) -> None:
        self.registry = Registry()
        self.requests = RequestMetrics(self.registry, clock)
        self.access = AccessMetrics(self.registry)
        self.admission = AdmissionMetrics(self.registry, clock)
        self.policies = PolicyMetrics(self.registry)
        self.aggregation = AggregationMetrics(self.registry)
        self.storage = StorageMetrics(self.registry, clock, store, resources)
        self._sources = sources
        self._components = components if components is not None else {}
        self._process = process

    def response(self, component: str = "") -> Response:
        """The page of a program, by default that of the API server. Raises ``StatusError`` 400 for an unknown one."""
        self.requests.count()  # programs in this process may show client metrics
        if component in ("", API_SERVER):
            sources: Sequence[Source] = (self.registry.exposition, *self._sources, *self._process)
        else:
            component_sources = self._components.get(component)
            if component_sources is None:
                names = ", ".join((API_SERVER, *sorted(self._components)))
                raise errors.bad_request(f'there are no metrics of component "{component}": the components are {names}')
            sources = component_sources
        return Response(200, _TEXT, "".join([source() for source in sources]).encode())
