"""``ServerMetrics``: everything that one server counts, and its pages.

Where manager and scheduler run in the same process, as in ``pilothouse up``, each has a page of its own, as upstream
each has a port: families of one name must not come twice on a page, and dashboards tell the programs by the job that
scrapes them. The page is chosen by a query parameter, so that the rights for ``/metrics`` are enough for all of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pilothouse.api.wire import Response
from pilothouse.apiserver import errors
from pilothouse.apiserver.metrics.access import AccessMetrics
from pilothouse.apiserver.metrics.admission import AdmissionMetrics
from pilothouse.apiserver.metrics.requests import RequestMetrics
from pilothouse.apiserver.metrics.storage import StorageMetrics, Stored
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.metrics import Registry

API_SERVER = "kube-apiserver"
Source = Callable[[], str]
"""Gives families in the text format, none of which another source of the page has."""

_TEXT = {"content-type": "text/plain; version=0.0.4; charset=utf-8", "cache-control": "no-cache, private"}


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
        self.storage = StorageMetrics(self.registry, clock, store, resources)
        self._sources = sources
        self._components = components if components is not None else {}
        self._process = process

    def response(self, component: str = "") -> Response:
        """The page of a program, by default of the API server. Raises ``StatusError`` 400 for one that does not run in
        this process."""
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
