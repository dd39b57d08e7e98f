"""Publishes the client CA in the ConfigMap ``kube-system/extension-apiserver-authentication``, for programs that
authenticate clients with it (the secure port of a manager, extension servers).

After kube-apiserver's ``controlplane/controller/clusterauthenticationtrust`` (v1.36), which also writes by the loopback
client. This server does not support front proxies (``requestheader-*``), and leaves their keys as they are.
"""

import asyncio

import msgspec

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.server import ApiServer
from pilothouse.env import Log
from pilothouse.machinery.pem_blocks import pem_blocks
from pilothouse.storage import Change

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
CHECK_SECONDS = 60.0
"""The interval of checks without an observed change."""

_PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_KEY = f"/configmaps/{NAMESPACE}/{NAME}"
_HEADERS = {"content-type": "application/json"}

_log = Log("apiserver")


class ClusterAuthenticationTrustController:
    """Keeps the ConfigMap up to date. Existing CAs are kept: they may be those of another server."""

    def __init__(self, server: ApiServer, authority: bytes) -> None:
        """``authority`` is PEM. The caller calls ``sync`` at the start and runs ``run``."""
        self._transport = server.transport("system:apiserver", ("system:masters",), user_agent="pilothouse-apiserver")
        self._authority = authority.decode("ascii", "replace")
        self._changed = asyncio.Event()
        server.store.follow("/configmaps/", self._on_commit)

    def _on_commit(self, changes: list[Change]) -> None:
        if any(change.key == _KEY for change in changes):
            self._changed.set()

    async def run(self) -> None:
        """Restore the ConfigMap after changes, until cancelled."""
        while True:
            self._changed.clear()
            await self.sync()
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def sync(self) -> None:
        """Sync once. Errors are logged; the next sync retries."""
        read = await self._request("GET", f"{_PATH}/{NAME}")
        if read.status == 404:
            meta = {"name": NAME, "namespace": NAMESPACE}
            desired = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": self._data({})}
            written = await self._request("POST", _PATH, desired)
        else:
            stored: Object = msgspec.json.decode(read.body)
            data = self._data(stored.get("data") or {})
            if read.status != 200 or data == stored.get("data"):
                return
            written = await self._request("PUT", f"{_PATH}/{NAME}", {**stored, "data": data})
        if written.status >= 400:
            _log.warning("Unable to write the client CA", response=written.body.decode(errors="replace"))

    def _data(self, stored: dict[str, str]) -> dict[str, str]:
        blocks = _certificates(stored.get("client-ca-file", ""))
        missing = [block for block in _certificates(self._authority) if block not in blocks]
        if blocks and not missing:
            return stored
        return {**stored, "client-ca-file": "".join(f"{block}\n" for block in (*blocks, *missing))}

    async def _request(self, method: str, path: str, body: Object | None = None) -> Response:
        return await self._transport.request(
            Request(method, path, _HEADERS, b"" if body is None else msgspec.json.encode(body))
        )


def _certificates(text: str) -> list[str]:
    return [block.text.decode() for block in pem_blocks(text.encode()) if block.type == b"CERTIFICATE"]
