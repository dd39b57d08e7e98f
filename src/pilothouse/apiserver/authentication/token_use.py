"""Records when a token in a Secret was last used, in the label ``kubernetes.io/legacy-token-last-used``, by which the
legacy service account token cleaner finds unused tokens.

``service_account_tokens`` reports each use; the label is written in the background, at most once a day. After
kubernetes' ``pkg/serviceaccount/legacy.go`` (v1.36).
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.api.wire import Request
from pilothouse.apiserver.server import ApiServer
from pilothouse.env import Log
from pilothouse.semantics.service_accounts import LAST_USED

_MAX_WAITING = 1000
"""The maximum number of Secrets that wait for their label. Further ones are recorded at their next use."""


class LegacyTokenTracker:
    """Records the use of one server's tokens. ``run`` it as long as the server."""

    def __init__(self, server: ApiServer) -> None:
        self._env = server.env
        self._transport = server.transport("system:apiserver", ("system:masters",))
        self._waiting: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue(_MAX_WAITING)
        self._recorded: dict[str, str] = {}
        self._log = Log("token use")

    def note(self, secret: Mapping[str, Any]) -> None:
        """Record the use of the token in the Secret."""
        meta, today = secret["metadata"], self._env.now().date().isoformat()
        uid = meta["uid"]
        if (
            (meta.get("labels") or {}).get(LAST_USED) == today
            or self._recorded.get(uid) == today
            or self._waiting.full()
        ):
            return
        if len(self._recorded) >= _MAX_WAITING:
            self._recorded.clear()
        self._recorded[uid] = today
        self._waiting.put_nowait((meta["namespace"], meta["name"], uid))

    async def run(self) -> None:
        """Write labels until cancelled."""
        while True:
            namespace, name, uid = await self._waiting.get()
            today = self._env.now().date().isoformat()
            body = msgspec.json.encode({"metadata": {"uid": uid, "labels": {LAST_USED: today}}})
            path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
            headers = {"content-type": "application/merge-patch+json"}
            response = await self._transport.request(Request("PATCH", path, headers, body))
            if response.status >= 400:
                self._recorded.pop(uid, None)
                self._log.info(
                    "Could not record when a token was used", v=2, secret=f"{namespace}/{name}", code=response.status
                )
