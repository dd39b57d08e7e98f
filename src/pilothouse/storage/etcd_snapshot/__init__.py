"""Reads the files of ``etcdctl snapshot save``, without an etcd.

    bolt         the file's database (bbolt): its meta pages and the pairs of one bucket
    key_values   etcd's records in it: the newest one of every key

Files are not trusted: a damaged one raises ``SnapshotFileError`` with position and reason.
"""

from pilothouse.storage.etcd_snapshot.bolt import SnapshotFileError
from pilothouse.storage.etcd_snapshot.key_values import Keyspace, KeyValue, read_keyspace

__all__ = ["KeyValue", "Keyspace", "SnapshotFileError", "read_keyspace"]
