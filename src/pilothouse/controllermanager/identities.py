"""The clients of the manager: with its own identity, or with one service account per controller.

With ``--use-service-account-credentials`` a missing account is created before its controller is built. A token is
requested (TokenRequest) with the controller's first request, and renewed after four fifths of its lifetime. Source:
v1.36 ``staging/src/k8s.io/controller-manager/pkg/clientbuilder/client_builder_dynamic.go``.
"""

import asyncio
import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pilothouse.api import wire
from pilothouse.api.core import NAMESPACES
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, View
from pilothouse.client import Client
from pilothouse.client.client import default_user_agent
from pilothouse.client.connect import ConnectionInfo
from pilothouse.client.credentials import IssuedToken
from pilothouse.client.errors import AlreadyExists, ApiError, NotFound
from pilothouse.client.remote import RemoteTransport
from pilothouse.env import Env, Log
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.causes import begin_sync, current_moment, record_decision, return_to
from pilothouse.runtime.client_metrics import RestClientMetrics

if TYPE_CHECKING:
    from pilothouse.client.decision_log import DecisionLog

with lazy_imports():
    from pilothouse.tracing import requests

NAMESPACE = "kube-system"
PROGRAM = "kube-controller-manager"
LIFETIME_SECONDS = 3600
_SHORTEST_SECONDS = 600.0
_USED_SHARE = 0.8
_JITTER = 0.05
_TRIES = 4
_FIRST_PAUSE_SECONDS = 0.5

SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount", True, Object)


class _TokenStatus(View, frozen=True):
    token: str = ""
    expiration_timestamp: datetime.datetime | None = None


class _TokenRequest(View, frozen=True):
    status: _TokenStatus = _TokenStatus()


class RemoteClients:
    """Creates the manager's clients (``manager.ClientFactory``), over one or more remote transports."""

    def __init__(
        self,
        env: Env,
        connection: ConnectionInfo,
        *,
        use_service_accounts: bool,
        metrics: RestClientMetrics | None = None,
        decisions: "DecisionLog | None" = None,
    ) -> None:
        self._env = env
        self._decisions = decisions
        self._connection = connection
        self._use_service_accounts = use_service_accounts
        self._metrics = metrics
        self._transport = connection.transport(env, metrics=metrics)
        self._accounts: dict[str, RemoteTransport] = {}
        self._report_transport(is_new=True)
        self._log = Log("identities")

    def shared(self, suffix: str, *, qps: float, burst: int, fence: Callable[[], None] | None = None) -> Client:
        """A client with the manager's own identity."""
        self._report_transport(is_new=False)
        return self._client(self._transport, suffix, qps=qps, burst=burst, fence=fence)

    async def for_controller(self, name: str, *, qps: float, burst: int, fence: Callable[[], None] | None) -> Client:
        """A controller's client: its service account's, or the manager's own identity.

        A missing account is created now, as upstream: permissions can then be granted to it even if its controller
        sends no requests. If that fails it is retried with the first token.
        """
        if not self._use_service_accounts:
            return self.shared(name, qps=qps, burst=burst, fence=fence)
        token = ServiceAccountToken(self._env, self.shared(PROGRAM, qps=qps, burst=burst, fence=fence), name)
        try:
            await token.ensure_account()
        except (ApiError, ConnectionError, TimeoutError) as error:
            self._log.warning("Failed to create a service account, will retry", account=name, err=str(error))
        transport = self._accounts.get(name)
        is_new = transport is None
        if transport is None:
            credentials = IssuedToken(token.issue, self._env, f"service account {NAMESPACE}/{name}")
            transport = self._accounts[name] = self._connection.transport(
                self._env, credentials=credentials, metrics=self._metrics
            )
        self._report_transport(is_new=is_new)
        suffix = f"system:serviceaccount:{NAMESPACE}:{name}"
        return self._client(transport, suffix, qps=qps, burst=burst, fence=fence)

    async def close(self) -> None:
        """Close all connections."""
        for transport in (*self._accounts.values(), self._transport):
            await transport.close()

    def _report_transport(self, *, is_new: bool) -> None:
        if self._metrics is not None:
            self._metrics.transport_given(is_new=is_new)

    def _client(
        self,
        transport: RemoteTransport,
        suffix: str,
        *,
        qps: float,
        burst: int,
        fence: Callable[[], None] | None,
    ) -> Client:
        traced: wire.Transport = transport
        if self._env.tracing is not None:
            traced = requests.TracedTransport(transport, self._env.tracing, remote=True)
        return Client(
            traced if self._decisions is None else self._decisions.wrap(traced),
            self._env,
            qps=max(qps, 0.0),
            burst=burst,
            user_agent=default_user_agent(PROGRAM, suffix),
            fence=fence,
            metrics=self._metrics,
        )


class ServiceAccountToken:
    """Requests tokens of ``kube-system/name``."""

    def __init__(self, env: Env, root: Client, name: str) -> None:
        self._env = env
        self._root = root
        self._name = name
        self._log = Log("identities")

    async def issue(self) -> tuple[str, float]:
        """A new token, and how many seconds to use it. Raises the last error after four attempts."""
        pause = _FIRST_PAUSE_SECONDS
        for _attempt in range(_TRIES - 1):
            try:
                return await self._request()
            except (ApiError, ConnectionError, TimeoutError) as error:
                self._log.warning("Failed to get a token, will retry", account=self._name, err=str(error))
            await asyncio.sleep(pause)
            pause *= 2
        return await self._request()

    async def _request(self) -> tuple[str, float]:
        await self.ensure_account()
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME_SECONDS},
        }
        token_request = await self._root.create(
            SERVICE_ACCOUNTS.read_as(_TokenRequest), body, NAMESPACE, name=self._name, subresource="token"
        )
        expires = token_request.status.expiration_timestamp
        lifetime = (expires - self._env.now()).total_seconds() if expires else float(LIFETIME_SECONDS)
        # A little earlier, by a random share: the tokens of all controllers were requested together.
        early = 1.0 - _JITTER * self._env.stream("identities").random()
        return token_request.status.token, max(lifetime, _SHORTEST_SECONDS) * _USED_SHARE * early

    async def ensure_account(self) -> None:
        """Create the account and its namespace, if they are missing. Raises the API server's errors."""
        if await self._exists(SERVICE_ACCOUNTS, self._name, NAMESPACE):
            return
        sync = current_moment()  # the first request of a sync may need the token
        begin_sync(PROGRAM, f"{NAMESPACE}/{self._name}")
        record_decision(f"the controller with the account {self._name} starts, and the account does not exist")
        try:
            await self._create_account()
        finally:
            return_to(sync)

    async def _create_account(self) -> None:
        if not await self._exists(NAMESPACES, NAMESPACE):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            await self._ensure(NAMESPACES.raw, body, "")
        meta = {"name": self._name, "namespace": NAMESPACE}
        await self._ensure(
            SERVICE_ACCOUNTS.raw, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}, NAMESPACE
        )

    async def _exists(self, kind: Kind[Any], name: str, namespace: str = "") -> bool:
        try:
            await self._root.get(kind, name, namespace)
        except NotFound:
            return False
        return True

    async def _ensure(self, kind: Kind[Any], body: Mapping[str, object], namespace: str) -> None:
        try:
            await self._root.create(kind, body, namespace)
        except AlreadyExists:
            self._log.info("Already created by another client", v=4, kind=kind.kind, account=self._name)
