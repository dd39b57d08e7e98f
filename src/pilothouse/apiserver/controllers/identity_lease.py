"""Renews the Lease that identifies this API server among several.

After kube-apiserver's ``StartKubeAPIServerIdentityLease`` (kubernetes ``pkg/controlplane/apiserver/server.go``, v1.36):
kube-system/apiserver-<hash of the hostname>, with a duration of an hour, renewed every ten seconds.
"""

import asyncio
import base64
import hashlib
import socket  # noqa: TID251  # the name of the host
from functools import partial

from pilothouse.apiserver.controllers.bootstrap_objects import stage_current
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.times import format_micro_time
from pilothouse.storage import Staged

_RENEW_SECONDS = 10.0
_LEASE_SECONDS = 3600


def server_name(host: str) -> str:
    """``apiserver-`` and a hash that is the same after a restart."""
    digest = hashlib.sha256(host.encode()).digest()[:16]
    return "apiserver-" + base64.b32encode(digest).decode().rstrip("=").lower()


def own_name() -> str:
    """The name of the server on this host."""
    return server_name(socket.gethostname())


async def renew_identity_lease(core: Core, address: str) -> None:
    """Write the lease now and every ten seconds; ``address`` is the address of this server for others."""
    host = socket.gethostname()
    name = server_name(host)
    holder_identity = f"{name}_{core.env.uid()}"
    while True:
        desired: Object = {
            "metadata": {
                "name": name,
                "namespace": "kube-system",
                "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": host},
                "annotations": {"kubernetes.io/peer-advertise-address": address},
            },
            "spec": {
                "holderIdentity": holder_identity,
                "leaseDurationSeconds": _LEASE_SECONDS,
                "renewTime": format_micro_time(core.env.now()),
            },
        }

        def stage(desired: Object = desired) -> Staged | None:
            return stage_current(core, "coordination.k8s.io", "leases", desired)

        await core.retry_until_stored(partial(core.commit_staged, stage))
        await asyncio.sleep(_RENEW_SECONDS)
