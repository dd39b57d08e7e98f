"""Waits until the caches of the scheduler are filled, and reports what the API server does not permit to list.

A missing permission is not an error that ends a program: it may be granted later, and reflectors try again. But nothing
is scheduled until then, so it is one warning that names all of them.

Namespaces are an exception in front of old servers. Only ``namespaceSelector`` of pod affinity needs their labels, and
the bootstrap policy has permitted kube-scheduler to list them since that field exists: v1.22, where it became beta
(``plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go``). Before, there is nothing to wait for.
"""

import asyncio
import re
from collections.abc import Iterable
from typing import Any

from pilothouse.api.core import NAMESPACES
from pilothouse.api.kinds import Kind
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Forbidden, NotFound
from pilothouse.env import Log
from pilothouse.runtime.informer import SharedInformer

_PATIENCE = 5.0
"""Seconds until permissions are checked: caches are filled much sooner, or the server does not respond."""
_CHECK_SECONDS = 60.0
"""Seconds between further checks."""
_RETRY_SECONDS = 1.0
_SELECTORS_SINCE = (1, 22)
_version = re.compile(r"v(\d+)\.(\d+)").match


async def wait_for_cache_sync(client: Client, informers: Iterable[SharedInformer[Any]], log: Log) -> None:
    """Return once the informers have synced, in front of old servers those that they permit to list."""
    waiting = list(informers)
    patience, reported = _PATIENCE, list[str]()
    while True:
        try:
            async with asyncio.timeout(patience):
                for informer in waiting:
                    await informer.wait_synced()
        except TimeoutError:
            patience = _CHECK_SECONDS
        else:
            return
        forbidden = [informer for informer in waiting if await _is_forbidden(client, informer)]
        for informer in forbidden:
            if informer.kind is NAMESPACES and await _is_without_namespace_selectors(client):
                log.info(
                    "Scheduling without the labels of namespaces: the server has no namespaceSelector before v1.22"
                )
                forbidden.remove(informer)
                waiting.remove(informer)
                break
        names = [informer.kind.group_resource for informer in forbidden]
        if names and names != reported:
            reported = names
            log.warning(
                "Not allowed to list what scheduling needs: no pod is scheduled until a ClusterRole that is bound to "
                "the scheduler's user permits it",
                verbs="get, list, watch",
                resources=", ".join(names),
            )


async def is_listed(
    client: Client,
    kind: Kind[Any],
    log: Log,
    *,
    otherwise: str,
    unavailable: tuple[type[ApiError], ...] = (NotFound, Forbidden),
) -> bool:
    """Whether the server has the kind and permits to list it, so that an informer would sync. With another error than
    those of ``unavailable`` it is asked again. ``otherwise`` is logged."""
    while True:
        try:
            await client.list(kind, limit=1)
        except unavailable as error:
            log.info(otherwise, resource=kind.group_resource, reason=str(error))
            return False
        except (ApiError, OSError) as error:
            log.error("Failed to list what scheduling needs", error=error, resource=kind.group_resource)  # noqa: TRY400  # no traceback: the server said no
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return True


async def _is_forbidden(client: Client, informer: SharedInformer[Any]) -> bool:
    if informer.has_synced:
        return False
    try:
        await client.list(informer.kind, limit=1)
    except Forbidden:
        return True
    except (ApiError, OSError):
        return False  # the reflector reports it
    return False


async def _is_without_namespace_selectors(client: Client) -> bool:
    try:
        version = await client.server_version()
    except (ApiError, OSError, ValueError):
        return False
    # ``major`` and ``minor`` are empty in some builds.
    match = _version(version.get("gitVersion", ""))
    return match is not None and (int(match[1]), int(match[2])) < _SELECTORS_SINCE
