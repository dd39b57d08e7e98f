"""The keys of objects in etcd, as kube-apiserver's.

Built-in resources are under their plain names, whatever their group (``/registry/deployments/…``), with the exceptions
declared by their registrations (``etcd_prefix``); custom ones under group and resource
(``/registry/stable.example.com/crontabs/…``). Other keys below ``/registry`` are no objects of resources served here:
they are those of other releases, and internal ones. Of these, the ranges of ports and addresses and the leases of API
servers are read.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.registry.core.services import range_allocations
from pilothouse.apiserver.resources import BEHIND_GATES, built_in, storage_prefix
from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from pilothouse.storage.etcd.options import EtcdOptions

with lazy_imports():
    from pilothouse.storage.etcd import options as etcd_options

DEFAULT_PREFIX = "/registry"
MASTER_LEASES = "/masterleases/"
"""The leases of API servers (``controllers.master_leases``)."""
_EVENTS = storage_prefix("", "events")
NO_RESOURCES = (range_allocations.PREFIX, MASTER_LEASES)
"""Internal objects without a uid."""
_MASTER_LEASE_SECONDS = 15.0
_SEPARATE = frozenset({"metrics.k8s.io"})
"""Groups that are served and stored by an aggregated server."""


def ttl_seconds(key: str, event_ttl: float) -> float:
    """The TTL of an object after its last write; 0 for none."""
    if key.startswith(_EVENTS):
        return event_ttl
    return _MASTER_LEASE_SECONDS if key.startswith(MASTER_LEASES) else 0.0


def resource_of(key: str) -> tuple[str, str] | None:
    """Group and resource of a key of the store; None for internal objects, which upstream never encrypts."""
    if key.startswith(NO_RESOURCES):
        return None
    group, resource, _rest = key.split("/", 2)
    return group, resource


@cache
def _prefixes() -> Mapping[str, str]:
    """etcd's prefix of each stored resource below the root → this server's prefix."""
    prefixes = {}
    for info in (*built_in(), *(info for infos in BEHIND_GATES.values() for info in infos)):
        if info.group in _SEPARATE or "create" not in info.verbs or "list" not in info.verbs:
            continue
        declared = registration_of(info.group, info.resource).etcd_prefix
        prefixes[f"{declared or info.resource}/"] = storage_prefix(info.group, info.resource)
    prefixes["ranges/"] = range_allocations.PREFIX
    prefixes["masterleases/"] = MASTER_LEASES
    return prefixes


@cache
def _own_prefixes() -> Mapping[str, str]:
    return {own_prefix: etcd_prefix for etcd_prefix, own_prefix in _prefixes().items()}


def location_of(options: "EtcdOptions") -> Callable[[str], int]:
    """Which of ``locations_of`` the options has a resource, by its prefix here. Overrides are for built-in resources;
    the ranges of addresses and ports are with the Services that take them, as upstream
    (``pkg/registry/core/rest/storage_core.go``, v1.36)."""
    services = etcd_options.location_of(options, "", "services")
    locations = {range_allocations.PREFIX: services}
    for own_prefix in _own_prefixes():
        if own_prefix not in NO_RESOURCES:
            group, resource, _rest = own_prefix.split("/")
            locations[own_prefix] = etcd_options.location_of(options, group, resource)
    return lambda prefix: locations.get(prefix, 0)


class KeyLayout:
    """Keys below one root: ``/registry`` or the value of ``--etcd-prefix``."""

    def __init__(self, prefix: str = DEFAULT_PREFIX) -> None:
        self.root = "/" + prefix.strip("/") + "/" if prefix.strip("/") else "/"
        """The prefix of all keys."""

    def etcd_key(self, key: str) -> str:
        """The key in etcd of an object."""
        group, resource, relative_key = key.split("/", 2)
        own_prefix = f"{group}/{resource}/"
        return f"{self.root}{_own_prefixes().get(own_prefix, own_prefix)}{relative_key}"

    def key(self, etcd_key: str) -> str | None:
        """The key of the object with this key in etcd; None if it is not an object of a resource served here."""
        if not etcd_key.startswith(self.root):
            return None
        path = etcd_key[len(self.root) :]
        first_segment, _, after_first = path.partition("/")
        second_segment, _, after_second = after_first.partition("/")
        prefixes = _prefixes()
        own_prefix = prefixes.get(f"{first_segment}/")
        if own_prefix is not None:
            return own_prefix + after_first if after_first else None
        if not after_second:
            return None
        own_prefix = prefixes.get(f"{first_segment}/{second_segment}/")
        if own_prefix is not None:
            return own_prefix + after_second
        # Groups of custom resources contain a dot, names of built-in resources do not (``apiextensions`` validates
        # both).
        return path if "." in first_segment else None
