"""The store of an API server on etcd: one, or one for each etcd that ``--etcd-servers-overrides`` names."""

import msgspec

from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec, location_of, ttl_seconds
from pilothouse.env import Env, Log
from pilothouse.plane.older_servers import older_server_warning
from pilothouse.storage import Retention, Store
from pilothouse.storage.encryption.at_rest import EncryptionAtRest
from pilothouse.storage.etcd.codecs import Keys
from pilothouse.storage.etcd.options import EtcdOptions, locations_of
from pilothouse.storage.etcd.routed import KeysOfLocation, RoutedStore
from pilothouse.storage.etcd.store import EtcdStore

_log = Log("etcd")


def open_store(env: Env, etcd: EtcdOptions, retention: Retention, at_rest: EncryptionAtRest | None = None) -> Store:
    """Open the store, and read its data from etcd; nothing is written yet. Raises as ``EtcdStore.open``."""
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

    if etcd.overrides:
        location = location_of(etcd)
        store: Store = RoutedStore(
            [opened(servers, KeysOfLocation(layout, location, at)) for at, servers in enumerate(locations_of(etcd))],
            location,
        )
    else:
        store = opened(etcd.servers, layout)
    if values := older_server_warning(store, codec.older, env.now()):
        _log.warning("Another API server on this etcd may be too old to read what this one writes", **values)
    return store
