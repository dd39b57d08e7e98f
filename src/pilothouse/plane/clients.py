"""Clients of the embedded API server for programs of the same plane:

no sockets, no throttling, upstream's identities.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pilothouse.api import wire
from pilothouse.client import Client
from pilothouse.client.client import NOTHING_WIDER, default_user_agent
from pilothouse.client.memo import DecodeMemo
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from pilothouse.apiserver.metrics.requests import ClientMetrics
    from pilothouse.client.decision_log import DecisionLog

with lazy_imports():
    from pilothouse.tracing import requests as traced_requests

ADMIN = ("kubernetes-admin", ("system:masters",))
MANAGER_USER = "system:kube-controller-manager"
SCHEDULER_USER = "system:kube-scheduler"
AUTHENTICATED = "system:authenticated"
MIN_WATCH_SECONDS = 12 * 3600
"""A watch in one process can't break unnoticed: reopening it every few minutes would be useless."""

SERVICES = {"manager": "kube-controller-manager", "scheduler": "kube-scheduler", "nodes": "kubelet"}
"""The components' names in traces. Other clients are not part of the plane."""

Wrap = Callable[[str, wire.Transport], wire.Transport]
"""Given a program's name (``manager``, ``scheduler``, ``nodes``) and its transport, return the transport to use."""


def as_it_is(_program: str, transport: wire.Transport) -> wire.Transport:
    """Wraps nothing."""
    return transport


def env_of(env: Env, program: str) -> Env:
    """The ``Env`` of a program in the process of ``env``: its spans are of a service of their own."""
    if env.tracing is None or program not in SERVICES:
        return env
    return msgspec.structs.replace(env, tracing=env.tracing.service(SERVICES[program]))


class Connect(Protocol):
    """Creates transports to one API server that trusts the program."""

    def __call__(
        self, user: str, groups: Sequence[str], *, user_agent: str, metrics: "ClientMetrics | None"
    ) -> wire.Transport:
        """The transport of a user."""
        ...


class LocalClients:
    """Creates clients of one embedded API server. Decoded watch events are shared between all of them: see ``Client``,
    also for ``wider``."""

    def __init__(
        self,
        env: Env,
        connect: Connect,
        wrap: Wrap = as_it_is,
        wider: Mapping[type[Any], type[Any]] = NOTHING_WIDER,
        decisions: "DecisionLog | None" = None,
        metrics: "Mapping[str, ClientMetrics] | None" = None,
        *,
        remote: bool = False,
    ) -> None:
        """``decisions`` records the writes of these clients, ``metrics`` count the requests of a program. ``remote``:
        the server is in another process."""
        self._env = env
        self._connect = connect
        self._wrap = wrap
        self._remote = remote
        self._memo = DecodeMemo()
        self._wider = wider
        self._decisions = decisions
        self._metrics = metrics if metrics is not None else {}

    def client(
        self,
        program: str,
        user: str,
        groups: tuple[str, ...] = (),
        *,
        agent: str = "",
        fence: Callable[[], None] | None = None,
        qps: float = 0,
        burst: int = 0,
    ) -> Client:
        """A client of ``program``, authenticated as ``user``."""
        user_agent = agent or default_user_agent(f"pilothouse-{program}")
        transport = self._connect(
            user, (*groups, AUTHENTICATED), user_agent=user_agent, metrics=self._metrics.get(program)
        )
        wrapped = self._wrap(program, transport)
        env = env_of(self._env, program)
        if env.tracing is not None and program in SERVICES:
            wrapped = traced_requests.TracedTransport(wrapped, env.tracing, remote=self._remote)
        return Client(
            wrapped if self._decisions is None else self._decisions.wrap(wrapped),
            env,
            qps=qps,
            burst=burst,
            user_agent=user_agent,
            fence=fence,
            memo=self._memo,
            wider=self._wider,
            host="local",
            # A wrapped transport may fail silently, as a network does.
            min_watch_seconds=MIN_WATCH_SECONDS if self._wrap is as_it_is else 0,
        )

    def manager(self, *, use_service_accounts: bool = True, throttled: bool = False) -> "ManagerClients":
        """The manager's client factory. ``throttled``: with its QPS and burst, as over a network; otherwise nothing is
        throttled."""
        return ManagerClients(self, use_service_accounts=use_service_accounts, throttled=throttled)


NewClients = Callable[[Mapping[type[Any], type[Any]], "Mapping[str, ClientMetrics]"], LocalClients]
"""Creates the clients of a plane's programs: ``wider`` and ``metrics`` of ``LocalClients``."""


class ManagerClients:
    """The client factory of the manager (``controllermanager.manager.ClientFactory``).

    In one process identity is a statement, not a proof: each controller simply is its service account, without tokens.
    """

    def __init__(self, clients: LocalClients, *, use_service_accounts: bool, throttled: bool) -> None:
        self._clients = clients
        self._use_service_accounts = use_service_accounts
        self._throttled = throttled

    def shared(self, suffix: str, *, qps: float, burst: int, fence: Callable[[], None] | None = None) -> Client:
        """A client with the manager's own identity."""
        agent = default_user_agent("kube-controller-manager", suffix)
        return self._client(MANAGER_USER, (), agent, qps, burst, fence)

    async def for_controller(self, name: str, *, qps: float, burst: int, fence: Callable[[], None] | None) -> Client:
        """A controller's client."""
        if not self._use_service_accounts:
            return self.shared(name, qps=qps, burst=burst, fence=fence)
        user = f"system:serviceaccount:kube-system:{name}"
        groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system")
        agent = default_user_agent("kube-controller-manager", user)
        return self._client(user, groups, agent, qps, burst, fence)

    def _client(
        self,
        user: str,
        groups: tuple[str, ...],
        agent: str,
        qps: float,
        burst: int,
        fence: Callable[[], None] | None,
    ) -> Client:
        if not self._throttled:
            qps, burst = 0, 0
        # Below 0 there is no limit (client-go rest.Config.QPS).
        return self._clients.client(
            "manager", user, groups, agent=agent, fence=fence, qps=max(qps, 0.0), burst=burst if qps > 0 else 0
        )
