"""Opens any file with a cluster: snapshots and recordings of pilothouse, snapshots of etcd."""

import os

from pilothouse.apiserver.resources import ResourceTable
from pilothouse.env.lazy import lazy_imports
from pilothouse.snapshots.reading import SnapshotFile
from pilothouse.snapshots.restoring import Restored, Restoring

with lazy_imports():
    from pilothouse.snapshots import etcd_snapshot


def restored(path: str | os.PathLike[str], *, gates: tuple[str, ...] = ()) -> Restored:
    """Read and check a whole snapshot of pilothouse or of ``etcdctl snapshot save``. ``gates`` are the feature gates of
    the API server, which may serve further resources. Raises ``SnapshotError``, or ``OSError`` if the file can't be
    read."""
    if etcd_snapshot.is_etcd_snapshot(path):
        return etcd_snapshot.restored_from_etcd(path, gates=gates)
    file = SnapshotFile(path)
    reading = Restoring(file, ResourceTable(gates))
    for entry in file.entries():
        reading.add(entry)
    return reading.done()
