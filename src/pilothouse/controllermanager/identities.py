"""Each controller as its own service account (``--use-service-account-credentials``).

The account is made when it is missing, a token is asked for through TokenRequest and renewed when a fifth of its life
is left. Facts: v1.36 ``staging/src/k8s.io/controller-manager/pkg/clientbuilder/client_builder_dynamic.go``.
"""

import asyncio
import datetime
from collections.abc import Mapping
from typing import Any

from pilothouse.api.core import NAMESPACES
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, View
from pilothouse.client import Client
from pilothouse.client.errors import AlreadyExists, ApiError, NotFound
from pilothouse.env import Env, Log

NAMESPACE = "kube-system"
LIFETIME_SECONDS = 3600
_SHORTEST_SECONDS = 600.0
_LEFT_SHARE = 0.2
_TRIES = 4
_FIRST_PAUSE_SECONDS = 0.5

SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount", True, Object)


class _TokenStatus(View, frozen=True):
    token: str = ""
    expiration_timestamp: datetime.datetime | None = None


class _TokenRequest(View, frozen=True):
    status: _TokenStatus = _TokenStatus()


class ServiceAccountToken:
    """The token of ``kube-system/name``, asked for when first needed and renewed in time. Never printed."""

    def __init__(self, env: Env, root: Client, name: str) -> None:
        self._env = env
        self._root = root
        self._name = name
        self._token = ""
        self._renew_at = 0.0
        self._asking = asyncio.Lock()
        self._log = Log("identities")

    async def get(self) -> str:
        """A token that is valid for a while yet. Raises what the API server or the network said after four tries."""
        if self._token and self._env.monotonic() < self._renew_at:
            return self._token
        async with self._asking:
            if not self._token or self._env.monotonic() >= self._renew_at:
                await self._renew()
        return self._token

    async def _renew(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(1, _TRIES + 1):
            try:
                await self._request()
                return
            except (ApiError, ConnectionError, TimeoutError) as error:
                if attempt == _TRIES:
                    raise
                self._log.warning("Failed to get a token, will retry", account=self._name, err=str(error))
            await asyncio.sleep(pause)
            pause *= 2

    async def _request(self) -> None:
        await self._ensure_account()
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME_SECONDS},
        }
        answer = await self._root.create(
            SERVICE_ACCOUNTS.read_as(_TokenRequest), body, NAMESPACE, name=self._name, subresource="token"
        )
        expires = answer.status.expiration_timestamp
        lifetime = (expires - self._env.now()).total_seconds() if expires else float(LIFETIME_SECONDS)
        self._token = answer.status.token
        self._renew_at = self._env.monotonic() + max(lifetime, _SHORTEST_SECONDS) * (1 - _LEFT_SHARE)

    async def _ensure_account(self) -> None:
        if await self._exists(SERVICE_ACCOUNTS, self._name, NAMESPACE):
            return
        if not await self._exists(NAMESPACES, NAMESPACE):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            await self._created(NAMESPACES.raw, body, "")
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": self._name, "namespace": NAMESPACE},
        }
        await self._created(SERVICE_ACCOUNTS.raw, account, NAMESPACE)

    async def _exists(self, kind: Kind[Any], name: str, namespace: str = "") -> bool:
        try:
            await self._root.get(kind, name, namespace)
        except NotFound:
            return False
        return True

    async def _created(self, kind: Kind[Any], body: Mapping[str, object], namespace: str) -> None:
        try:
            await self._root.create(kind, body, namespace)
        except AlreadyExists:
            self._log.info("Someone else made it first", v=4, kind=kind.kind, account=self._name)
