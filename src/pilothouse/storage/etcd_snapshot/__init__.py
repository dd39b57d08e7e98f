"""What is in a file of ``etcdctl snapshot save``, read without an etcd.

    bolt         the file's database (bbolt): its meta pages and the pairs of one bucket
    key_values   etcd's records in it: the newest one of every key

Nothing of the file is believed: what is damaged is a ``SnapshotFileError`` that says what is wrong, and where.
"""

from pilothouse.storage.etcd_snapshot.bolt import SnapshotFileError
from pilothouse.storage.etcd_snapshot.key_values import Keyspace, KeyValue, read_keyspace

__all__ = ["KeyValue", "Keyspace", "SnapshotFileError", "read_keyspace"]
