"""Waits until the API server is ready and accepts the program's credentials. Every program does this at the start.

The manager, the scheduler and the nodes wait here, so that the start order does not matter, and a missing server or
wrong credentials are one clear error instead of a stream of them.
"""

import asyncio
from typing import Any

from pilothouse.client.discovery import Requester
from pilothouse.client.errors import ApiError, ConfigError, NotFound, Unauthorized
from pilothouse.env import Env, Log

WAIT_SECONDS = 10.0
"""How long the API server may take to become healthy before a start fails (v1.36 ``WaitForAPIServer``)."""

_UNHEALTHY = "; is it running, and is its address right?"
_NO_HEALTHZ = "; is this the address of a Kubernetes API server?"

_log = Log("startup")


async def wait_for_api_server(client: Requester, env: Env, server: str = "") -> None:
    """Poll ``/healthz`` once a second until it returns ok. ``server`` is its address, for errors. Raises
    ``ConnectionError`` on timeout, or if retrying cannot help."""
    at = f" at {server}" if server else ""
    server_attributes: dict[str, Any] = {"server": server} if server else {}
    deadline, logged = env.monotonic() + WAIT_SECONDS, ""
    while True:
        try:
            await _request_health(client, max(1.0, deadline - env.monotonic()))
            return
        except Unauthorized as error:
            # /healthz is open to all but wrong credentials.
            raise ConnectionError(
                f"the API server{at} does not accept the credentials in use: {error}. They are wrong, expired or "
                "revoked; check the user of the kubeconfig"
            ) from error
        except (ApiError, ConnectionError, TimeoutError) as error:
            if env.monotonic() >= deadline:
                # A request that was never sent, for example because there are no credentials, does not indicate an
                # unhealthy server.
                was_requested = not isinstance(error.__cause__, ConfigError)
                hint = "" if not was_requested else _NO_HEALTHZ if isinstance(error, NotFound) else _UNHEALTHY
                raise ConnectionError(f"failed to wait for apiserver being healthy{at}: {error}{hint}") from error
            if str(error) != logged:
                logged = str(error)
                _log.info("Waiting for the API server", reason=error, **server_attributes)
        await asyncio.sleep(1.0)


async def _request_health(client: Requester, seconds: float) -> None:
    """Also a server that accepts connections and never responds must not be waited for longer, nor silently."""
    try:
        async with asyncio.timeout(seconds) as limit:
            await client.request("GET", "/healthz")
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"no response within {seconds:.0f} s") from None
