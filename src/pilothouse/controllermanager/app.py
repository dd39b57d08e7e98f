"""The manager as a process: connection to the API server, secure port, and the manager.

``cli`` calls ``run`` with the options from the command line. The secure port is served before leader election, and also
on a standby, as upstream.
"""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol, runtime_checkable

from pilothouse.cel.sandbox_on_demand import SandboxOnDemand
from pilothouse.client.connect import ConnectionInfo, find
from pilothouse.controllermanager import build_metrics, configz, profiling, zpages
from pilothouse.controllermanager.health import Health
from pilothouse.controllermanager.identities import PROGRAM, RemoteClients
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import Options
from pilothouse.controllermanager.pages import (
    NOT_FOUND,
    Page,
    Pages,
    Request,
    Response,
    health_page,
    metrics_page,
    single_checks,
)
from pilothouse.controllermanager.root_authority import ca_bundle_of, with_ca_bundle
from pilothouse.controllermanager.secure_port import secure_port
from pilothouse.controllermanager.slis import Slis
from pilothouse.env import Env, Log
from pilothouse.machinery.metrics import Registry
from pilothouse.runtime import LeadershipLost, process_metrics
from pilothouse.runtime.client_metrics import RestClientMetrics
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.tracing.flags import MANAGER, traced


async def run(
    env: Env,
    options: Options,
    descriptors: Sequence[Descriptor],
    *,
    on_lost: Callable[[LeadershipLost], object] | None = None,
) -> None:
    """Run the manager until cancelled.

    ``on_lost`` is called as soon as a lease is lost, before anything is stopped. Raises ``ConfigError``, ``ApiError``,
    ``OSError``, ``CannotRun``, ``LeadershipLost``, ``TracingError`` or ``TracingUnavailable``; their messages are meant
    for users.
    """
    metrics = Registry(disabled=options.metrics.disabled, allowed=options.metrics.allowed)
    async with traced(env, options.tracing_config_file, MANAGER, metrics=metrics) as traced_env:
        await _run(traced_env, options, descriptors, metrics, on_lost)


async def _run(
    env: Env,
    options: Options,
    descriptors: Sequence[Descriptor],
    metrics: Registry,
    on_lost: Callable[[LeadershipLost], object] | None,
) -> None:
    process_metrics.install(metrics)
    build_metrics.install(metrics, options.gates)
    connection = connection_info(options)
    client_metrics = RestClientMetrics(metrics, env.now)
    decisions = options.decision_log.open(env, metrics)
    clients = RemoteClients(
        env,
        connection,
        use_service_accounts=options.use_service_account_credentials,
        metrics=client_metrics,
        decisions=decisions,
    )
    options = with_ca_bundle(options, ca_bundle_of(connection.tls) if connection.endpoint.tls else b"")
    health, readiness, sandbox = Health(), Health(), SandboxOnDemand()
    manager = Manager(
        env,
        options,
        clients,
        descriptors,
        metrics=metrics,
        health=health,
        readiness=readiness,
        server=connection.server,
        on_lost=on_lost,
        expressions=sandbox.get,
    )
    try:
        async with secure_port(env, options.serving, pages_of(env, options, manager), client_metrics):
            connection.log(Log("controllermanager"))
            await manager.run()
    finally:
        sandbox.stop()
        await clients.close()
        if decisions is not None:
            await decisions.close()


def connection_info(options: Options) -> ConnectionInfo:
    """The connection to the API server. Raises ``ConfigError``."""
    connection = find(kubeconfig=options.kubeconfig, master=options.master)
    return connection if options.gates.enabled("ClientsAllowCARotation") else connection.with_current_authority()


@runtime_checkable
class _HasGraph(Protocol):
    """The part of the garbage collector that its debug page needs."""

    def graph_as_dot(self, uids: Sequence[str] = ()) -> str: ...


def pages_of(env: Env, options: Options, manager: Manager) -> Pages:
    """The pages of the secure port."""
    serving, pages, slis = options.serving, Pages(), Slis(env, manager.health, manager.readiness)
    for endpoint, health in (("healthz", manager.health), ("livez", manager.health), ("readyz", manager.readiness)):
        pages.add(f"/{endpoint}", health_page(health, endpoint))
        pages.add(f"/{endpoint}/", single_checks(health, endpoint), below=True)
    pages.add("/metrics", metrics_page(manager.metrics))
    pages.add("/metrics/slis", slis.page)
    pages.add("/configz", lambda _request: Response(HTTPStatus.OK, configz.page(options), "application/json"))
    pages.add("/debug/controllers/garbage-collector-controller/graph", _graph_page(manager))
    if serving.flagz:
        pages.add("/flagz", zpages.flagz_page(env, PROGRAM, options.flag_values))
    if serving.statusz:
        pages.add("/statusz", zpages.statusz_page(env, PROGRAM, lambda: pages.paths))
    if serving.profiling:
        profiling.install(pages, env)
    return pages


def _graph_page(manager: Manager) -> Page:
    def page(request: Request) -> Response:
        collector = manager.controllers.get("garbage-collector-controller")
        if not isinstance(collector, _HasGraph):
            return NOT_FOUND
        return Response(HTTPStatus.OK, collector.graph_as_dot(request.query.get("uid", ())), "text/vnd.graphviz")

    return page
