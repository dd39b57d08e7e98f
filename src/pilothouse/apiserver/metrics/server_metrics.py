"""``ServerMetrics``: everything that one server counts, and its pages.

Where manager and scheduler run in the same process, as in ``pilothouse up``, each has a page of its own, as upstream
each has a port: families of one name must not come twice on a page, and dashboards tell the programs by the job that
scrapes them. The page is chosen by a query parameter, so that the rights for ``/metrics`` are enough for all of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pilothouse.api.wire import Response
from pilothouse.apiserver import errors
from pilothouse.apiserver.metrics.access import AccessMetrics
from pilothouse.apiserver.metrics.admission import AdmissionMetrics, PolicyMetrics
from pilothouse.apiserver.metrics.requests import RequestMetrics
from pilothouse.apiserver.metrics.storage import StorageMetrics, Stored
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.metrics import Registry

API_SERVER = "kube-apiserver"
Source = Callable[[], str]
"""Gives families in the text format, none of which another source of the page has."""

_TEXT = {"content-type": "text/plain; version=0.0.4; charset=utf-8", "cache-control": "no-cache, private"}


class AggregationMetrics:
    """Which APIServices are unavailable (``pkg/controllers/status/metrics/metrics.go``)."""

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
        """These APIServices there are, and whether each is available."""
        self._gauge.show({(name,): 0.0 if is_available else 1.0 for name, is_available in available.items()})

    def became_unavailable(self, name: str, reason: str) -> None:
        """The condition of an APIService is no longer true."""
        self._total.labels(name, reason).inc()


class ServerMetrics:
    """The metrics of one server. ``sources``: what else its page shows; ``components``: the pages of other programs in
    the process, by upstream's names of them; ``process``: what each of these pages shows as well."""

    def __init__(
        self,
        clock: Callable[[], float],
        store: Stored,
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
        """The page of a program, by default of the API server. Raises ``StatusError`` 400 for one that does not run in
        this process."""
        self.requests.count()  # programs in this process show their requests, too
        if component in ("", API_SERVER):
            sources: Sequence[Source] = (self.registry.exposition, *self._sources)
        else:
            found = self._components.get(component)
            if found is None:
                there = ", ".join((API_SERVER, *sorted(self._components)))
                raise errors.bad_request(
                    f'there are no metrics of component "{component}": the programs in this process are {there}'
                )
            sources = found
        return Response(200, _TEXT, "".join([source() for source in (*sources, *self._process)]).encode())
