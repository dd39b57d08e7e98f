"""Any file with a cluster in it, restored: snapshots and recordings of pilothouse, backups of etcd."""

import os

from pilothouse.apiserver.resources import ResourceTable
from pilothouse.env.lazy import lazy_imports
from pilothouse.snapshots.reading import SnapshotFile
from pilothouse.snapshots.restoring import Restored, Restoring

with lazy_imports():
    from pilothouse.snapshots import etcd_snapshot


def restored(path: str | os.PathLike[str], *, gates: tuple[str, ...] = ()) -> Restored:
    """Read and check a whole snapshot: of pilothouse, or one that ``etcdctl snapshot save`` has written. Raises
    ``SnapshotError``, or ``OSError`` when there is no such file.

    ``gates`` are the feature gates of the API server, which may serve further resources.
    """
    if etcd_snapshot.is_etcd_snapshot(path):
        return etcd_snapshot.restored_from_etcd(path, gates=gates)
    file = SnapshotFile(path)
    reading = Restoring(file, ResourceTable(gates))
    for entry in file.entries():
        reading.add(entry)
    return reading.done()
