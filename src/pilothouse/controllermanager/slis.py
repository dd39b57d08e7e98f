"""``/metrics/slis``: the results of health checks (component-base ``metrics/prometheus/slis``, v0.36).

It has its own registry, so that SLI scrapers need not read all of ``/metrics``. Checks are counted when they are
requested; DELETE resets the metrics.
"""

from http import HTTPStatus

from pilothouse.controllermanager.health import Health
from pilothouse.controllermanager.pages import METRICS, Request, Response
from pilothouse.env import Env
from pilothouse.machinery.metrics import CounterFamily, GaugeFamily, Registry


class Slis:
    """Records the results of health checks."""

    def __init__(self, env: Env, *healths: Health) -> None:
        self._registry = Registry()
        self._state: GaugeFamily = self._registry.gauge(
            "kubernetes_healthcheck", "[STABLE] This metric records the result of a single healthcheck.",
            ("name", "type"),
        )  # fmt: skip
        self._total: CounterFamily = self._registry.counter(
            "kubernetes_healthchecks_total", "[STABLE] This metric records the results of all healthcheck.",
            ("name", "status", "type"),
        )  # fmt: skip
        self._registry.gauge(
            "process_start_time_seconds", "[ALPHA] Start time of the process since unix epoch in seconds."
        ).labels().set(env.now().timestamp())
        for health in healths:
            health.observe = self.observe

    def observe(self, name: str, endpoint: str, passed: bool) -> None:
        """A check has run."""
        self._state.labels(name, endpoint).set(1 if passed else 0)
        self._total.labels(name, "success" if passed else "error", endpoint).inc()

    def page(self, request: Request) -> Response:
        """The page."""
        if request.method == "DELETE":
            self._state.children.clear()
            self._total.children.clear()
            return Response(HTTPStatus.OK, "metrics reset\n")
        return Response(HTTPStatus.OK, self._registry.exposition(), METRICS)
