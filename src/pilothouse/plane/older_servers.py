"""Notices from what is stored in etcd that a kube-apiserver of an older release may be at work on it.

Such a server can't read what this one writes: kube-apiserver knows the storage versions of its own release and of
earlier ones. Upstream supports servers on one etcd that are at most one minor version apart, and does not refuse
others; neither does this one.

A server that is alive has a key below ``masterleases``, whatever its release, and since v1.26 an identity Lease, which
does not contain the release. So the objects that every server maintains are asked: one of these in an older version was
written by an older release. It may be left from before an upgrade, which is why another server has to be alive, too.
"""

import datetime
from collections.abc import Mapping

import msgspec

from pilothouse.apiserver.controllers.identity_lease import own_name
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.apiserver.storage_codec.keys import MASTER_LEASES
from pilothouse.machinery.times import parse_micro_time
from pilothouse.storage import Store

_LEASES = f"{storage_prefix('coordination.k8s.io', 'leases')}kube-system/"
_FRESH = datetime.timedelta(seconds=40)
"""Identity Leases are renewed every ten seconds, and keys below ``masterleases`` are kept for fifteen."""
_MAINTAINED = (
    "discovery.k8s.io/endpointslices",
    "flowcontrol.apiserver.k8s.io/flowschemas",
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
)
"""The resources that every API server maintains, and whose storage version has changed."""
# ``APILifecycleIntroduced`` in k8s.io/api: discovery/v1 and flowcontrol/v1, v0.36.
_BECAUSE = (
    "kube-apiserver before v1.29 can't read the flowschemas and prioritylevelconfigurations that this server writes, "
    "and before v1.21 endpointslices; its lists of them fail. Upgrade it first, or use an etcd or a prefix of its own"
)


class _Spec(msgspec.Struct, frozen=True):
    renew: str = msgspec.field(default="", name="renewTime")


class _Lease(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_decode = msgspec.json.Decoder(_Lease).decode


def older_server_warning(store: Store, older: Mapping[str, str], now: datetime.datetime) -> dict[str, str] | None:
    """The values of a log line, if an older server may be at work; ``older`` has the version of resources of which an
    object is stored in another version than this server's."""
    kinds = [f"{name.rpartition('/')[2]} in {older[name]}" for name in _MAINTAINED if name in older]
    alive = [record.key.removeprefix(MASTER_LEASES) for record in store.list(MASTER_LEASES).records]
    if not kinds or not alive:
        return None
    leases = ((record.key.rpartition("/")[2], record.value) for record in store.list(_LEASES).records)
    identities = {name for name, value in leases if name.startswith("apiserver-") and _is_fresh(value, now)}
    # After a restart of this server both of its own are still there.
    if len(alive) <= len(identities) and identities <= {own_name()}:
        return None
    return {"servers": ", ".join(alive), "stored": ", ".join(kinds), "because": _BECAUSE}


def _is_fresh(value: bytes, now: datetime.datetime) -> bool:
    try:
        return now - parse_micro_time(_decode(value).spec.renew) < _FRESH
    except (ValueError, RecursionError):
        return False
