"""The store of an API server on etcd: one, or one for each etcd that ``--etcd-servers-overrides`` names."""

import msgspec

from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec, location_of, ttl_seconds
from pilothouse.env import Env
from pilothouse.storage import Retention, Store
from pilothouse.storage.encryption.at_rest import EncryptionAtRest
from pilothouse.storage.etcd.codecs import Keys
from pilothouse.storage.etcd.options import EtcdOptions, locations_of
from pilothouse.storage.etcd.routed import KeysOfLocation, RoutedStore
from pilothouse.storage.etcd.store import EtcdStore


def open_store(env: Env, etcd: EtcdOptions, retention: Retention, at_rest: EncryptionAtRest | None = None) -> Store:
    """Open the store, and read its data from etcd. Raises as ``EtcdStore.open``."""
    layout, codec = KeyLayout(etcd.prefix), ObjectCodec()

    def opened(servers: tuple[str, ...], keys: Keys) -> EtcdStore:
        return EtcdStore.open(
            env,
            msgspec.structs.replace(etcd, servers=servers),
            keys,
            codec,
            retention=retention,
            lasting=lambda key: ttl_seconds(key, etcd.event_ttl),
            encryption=at_rest,
        )

    if not etcd.overrides:
        return opened(etcd.servers, layout)
    location = location_of(etcd)
    return RoutedStore(
        [opened(servers, KeysOfLocation(layout, location, at)) for at, servers in enumerate(locations_of(etcd))],
        location,
    )
